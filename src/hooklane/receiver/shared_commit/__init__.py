"""Inline handlers on a store with one writer (SQLite) share commits: `threads` for sync handlers, `tasks` for async."""
