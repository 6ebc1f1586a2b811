"""In which order, and how often, do events arrive? Networks reorder and repeat; tests should too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from hooklane.errors import UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def schedules(events: Sequence[T], *, copies_max: int = 3) -> SearchStrategy[list[T]]:
    """A Hypothesis strategy: every event at least once and at most *copies_max* times, in any order.

    It shrinks towards one copy of each, in the order given. *events* may be anything: events, or the numbers by which
    a test makes them.
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise UsageError("schedules needs hypothesis: run  pip install hypothesis") from error
    if copies_max < 1:
        raise UsageError(f"copies_max must be at least 1, got {copies_max}")
    each = list(events)

    def arrivals(copies: list[int]) -> SearchStrategy[list[T]]:
        return st.permutations([event for event, many in zip(each, copies, strict=True) for _ in range(many)])

    return st.lists(st.integers(1, copies_max), min_size=len(each), max_size=len(each)).flatmap(arrivals)


def reordered(events: Sequence[T], seed: int = 0) -> list[T]:
    """*events* in another order, the same for the same *seed*; never as they were when there are two or more."""
    shuffled = list(events)
    random.Random(seed).shuffle(shuffled)
    if len(shuffled) > 1 and all(a is b for a, b in zip(shuffled, events, strict=True)):
        shuffled.append(shuffled.pop(0))
    return shuffled
