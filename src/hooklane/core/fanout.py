"""Which endpoints get an event, and in which lane of each does it stand?"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint, Operational, Order
from hooklane.model.event import Event
from hooklane.model.lane import GLOBAL_KEY, PARTITIONS, Place
from hooklane.model.publishing import UNKNOWN_ENDPOINT

TYPES_MAX = 1_000
"""For so many types it is remembered who gets them; beyond that it is forgotten and worked out again."""
LISTS_MAX = 4_096
STARS_MAX = 8
_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,128}\Z")


def is_pattern(text: str) -> bool:
    """Whether *text* can be a type filter: the characters of a type, and some `*`, each for any run of them."""
    return bool(_PATTERN.match(text)) and text.count("*") <= STARS_MAX


def matches(patterns: Sequence[str], type_: str) -> bool:
    """Whether a type passes the filter; no patterns let everything pass."""
    return not patterns or any(fits(pattern, type_) for pattern in patterns)


def fits(pattern: str, text: str) -> bool:
    """Whether *text* is what stands between the stars of *pattern*, in that order, with anything in their places.

    Each piece is taken where it is found first: that leaves the most for the others, so nothing is ever tried again,
    however many stars there are. (As a regular expression, thirty stars took longer than a publisher waits.)
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in rest:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def places(event: Event, asked: Sequence[str] | None, endpoints: Sequence[Endpoint]) -> list[Place]:
    """Where *event* stands: at the endpoints *asked* for by id, else at those whose filter it passes.

    A deleted endpoint takes nothing new. A paused or disabled one does, and holds it.
    """
    return _Takers(endpoints).places(event, asked)


class Fanout:
    """`places` for a publisher that asks about the same endpoints again and again: the work is done once for each type.

    Told by identity: a list that was given here once is never changed, a change of an endpoint makes a new list.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Takers] = {}

    def __call__(self, event: Event, asked: Sequence[str] | None, endpoints: Sequence[Endpoint]) -> list[Place]:
        takers = self._known.get(id(endpoints))
        # An id is only worth something while its object lives, and what is known keeps its list alive.
        if takers is None:
            if len(self._known) >= LISTS_MAX:
                self._known.clear()
            takers = self._known[id(endpoints)] = _Takers(endpoints)
        return takers.places(event, asked)


class _Takers:
    """Those of some endpoints that take something new, in their order, and who of them takes what.

    A tenant may have a thousand endpoints, each with a type of its own, and all publishers wait while it is found out
    who gets a type that is new: so types are looked up, and patterns by what stands before their first `*`.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._given = endpoints
        self._all = [endpoint for endpoint in endpoints if not endpoint.state.is_deleted]
        self._numbers: dict[str, int] | None = None
        self._of_type: dict[str, list[Endpoint]] = {}
        self._every: list[int] = []
        """Numbers of endpoints that take all types."""
        self._exactly: dict[str, list[int]] = {}
        self._begins: dict[str, dict[str, list[int]]] = {}
        """By what stands before the first `*`: the patterns that begin so, with the endpoints that have them."""
        for number, one in enumerate(self._all):
            if one.operational is Operational.NONE:  # the others are named by operational events, and take nothing else
                self._note(number, one.types)
        self._lengths = sorted({len(begin) for begin in self._begins})

    def _note(self, number: int, patterns: Sequence[str]) -> None:
        if not patterns:
            self._every.append(number)
        for pattern in patterns:
            begin, star, _ = pattern.partition("*")
            if star:
                self._begins.setdefault(begin, {}).setdefault(pattern, []).append(number)
            else:
                self._exactly.setdefault(pattern, []).append(number)

    def places(self, event: Event, asked: Sequence[str] | None) -> list[Place]:
        chosen = self._passed_by(event.type) if asked is None else self._named(asked)
        return [_place(event, endpoint) for endpoint in chosen]

    def _passed_by(self, type_: str) -> list[Endpoint]:
        found = self._of_type.get(type_)
        if found is None:
            if len(self._of_type) >= TYPES_MAX:
                self._of_type.clear()
            found = self._of_type[type_] = [self._all[number] for number in sorted(self._find(type_))]
        return found

    def _find(self, type_: str) -> set[int]:
        numbers = {*self._every, *self._exactly.get(type_, ())}
        for length in self._lengths:
            for pattern, those in self._begins.get(type_[:length], {}).items():
                if fits(pattern, type_):
                    numbers.update(those)
        return numbers

    def _named(self, asked: Sequence[str]) -> list[Endpoint]:
        if self._numbers is None:
            self._numbers = {endpoint.id: number for number, endpoint in enumerate(self._all)}
        wanted = set(asked)
        unknown = sorted(wanted - self._numbers.keys())
        if unknown:
            raise InvalidEvent(UNKNOWN_ENDPOINT, f"there is no endpoint with the id {' or '.join(unknown)}")
        return [self._all[number] for number in sorted(self._numbers[id_] for id_ in wanted)]


def _place(event: Event, endpoint: Endpoint) -> Place:
    key = lane_key(endpoint, event.key)
    return Place(endpoint.id, key, partition_of(endpoint.id, event.id if key is None else key))


def lane_key(endpoint: Endpoint, event_key: str | None) -> str | None:
    """The key of the lane in which an event stands at *endpoint*, or None where it stands in no line at all."""
    order = endpoint.order
    if order is Order.KEY:  # as nearly always
        return event_key
    return GLOBAL_KEY if order is Order.GLOBAL else None


def partition_of(endpoint_id: str, key: str) -> int:
    """The partition of a lane: a fixed hash, the same in every process and every version."""
    return zlib.crc32(f"{endpoint_id}\0{key}".encode()) % PARTITIONS
