"""Is what an application gave a whole number? Neither `True` nor `1.5` nor `nan` is one."""

from __future__ import annotations

from typing import Any


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether *value* is a whole number of at least *least*."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
