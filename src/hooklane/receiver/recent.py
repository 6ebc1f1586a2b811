"""Ids that came by lately: a hint that a message may be a duplicate, never a proof. The store decides."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

REMEMBERED_MAX = 16_384

Id = tuple[str, str, str]


class Recent:
    """The last so many ids, in memory, by their hashes; a newer one takes the place of an older one.

    Without a lock: what two threads forget of each other is a hint less.
    """

    def __init__(self) -> None:
        self._marks = array("q", bytes(8 * REMEMBERED_MAX))

    def note(self, ids: Iterable[Id]) -> bool:
        """Remember *ids*; whether all of them were here before."""
        marks, known = self._marks, True
        for id in ids:
            mark = hash(id)
            place = mark % REMEMBERED_MAX
            if marks[place] != mark:
                marks[place] = mark
                known = False
        return known
