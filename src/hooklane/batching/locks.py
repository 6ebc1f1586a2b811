"""Locks that a fork finds open: the thread that held one is not in the child, and would never let it go.

A web server may fork while a worker thread of the parent is at work (gunicorn's `--preload`). On a quiet machine such a
thread is hardly ever inside one of our short sections; on a busy one it is taken from its core there.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

Held = TypeVar("Held")
_held: WeakSet[Any] = WeakSet()


def open_in_forks(lock: Held) -> Held:
    """This lock or event of `threading`, which is not held in a process that was just forked."""
    _held.add(lock)
    return lock


def _open() -> None:
    for one in list(_held):
        one._at_fork_reinit()  # what `threading` and `logging` do with their own


os.register_at_fork(after_in_child=_open)
