"""Group commit, once for the whole house: requests that come while a write is under way share the next one.

`line` holds what waits and settles what was written (no I/O); `tasks` and `threads` say which task or thread writes,
what waits and how it is told. docs/explain/batching.md has the picture. `locks` are open in a forked
process, also those that a thread of its parent held.
"""
