"""Ids that came by lately: a hint that a message may be a duplicate, never a proof. The store decides."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

REMEMBERED_MAX = 10_000

Id = tuple[str, str, str]


class Recent:
    """The last so many ids, in memory; the oldest goes when a new one comes."""

    def __init__(self) -> None:
        self._ids: OrderedDict[Id, None] = OrderedDict()  # a dict looks for its oldest among all that it lost
        self._lock = threading.Lock()

    def note(self, ids: Iterable[Id]) -> bool:
        """Remember *ids*; whether all of them were here before."""
        known = True
        with self._lock:
            for id in ids:
                if id not in self._ids:
                    known = False
                    self._ids[id] = None
                    if len(self._ids) > REMEMBERED_MAX:
                        self._ids.popitem(last=False)
        return known
