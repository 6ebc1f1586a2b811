"""A bound for slow work that calls ask for, such as tests of endpoints: so many at once, never all for one tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hooklane.server.problem import Problem


class Places:
    """A tenant may hold as many places as are free: alone half of them, the next one half of the rest."""

    def __init__(self, most: int, what: str) -> None:
        """*what* is told to a caller for whom there is none: `tests of endpoints`."""
        self._most = most
        self._what = what
        self._held: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant: str) -> Iterator[None]:
        """A place for the time of the block; 429 where there is none."""
        held = self._held
        if held[tenant] >= self._most - held.total():
            raise Problem("too_many_requests", f"too many {self._what} are under way; send it again in a moment")
        held[tenant] += 1
        try:
            yield
        finally:
            held[tenant] -= 1
            if not held[tenant]:
                del held[tenant]
