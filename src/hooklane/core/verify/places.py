"""Where does a value live? In a header, in the body, in what was signed: places are data, `Reading` looks there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hooklane.model.message import Request
from hooklane.model.value import value


@dataclass(frozen=True, slots=True)
class InBody:
    """A dotted path into the event, such as `data.object.id` or `items[0].id`; forms are flat."""

    path: str


@dataclass(frozen=True, slots=True)
class InEnvelope:
    """A path into the whole body where the event is one item of a batch."""

    path: str


@dataclass(frozen=True, slots=True)
class InHeader:
    """A header. Unless the scheme signs it, it is a hint and no proof."""

    name: str


@dataclass(frozen=True, slots=True)
class Proven:
    """A value that the accepted scheme signed, by the name that the scheme gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class Joined:
    """Several values as one; nothing when the first is missing."""

    places: tuple[Place, ...]
    by: str = ":"


Place = InBody | InEnvelope | InHeader | Proven | Joined | Callable[[Any], Any]
"""A callable gets the parsed event."""


@value(frozen=True, slots=True)
class Reading:
    """One event to be read: its document, the whole body's, the request, and what was proven about it."""

    request: Request
    event: Any
    envelope: Any
    proven: Mapping[str, str] = field(default_factory=dict)


Read = Callable[[Reading], Any]
"""Finds a value in an event, or None. How is chosen once, by the place: a profile is read for every message."""


def read_at(place: Place) -> Read:
    """What finds the value at *place*."""
    match place:
        case InBody(path):
            steps = steps_of(path)
            if len(steps) != 1 or isinstance(steps[0], int):
                return lambda reading: dig(reading.event, path)
            member = steps[0]
            return lambda reading: reading.event.get(member) if isinstance(reading.event, dict) else None
        case Proven(name):
            return lambda reading: reading.proven.get(name)
        case InHeader(name):
            low = name.lower()
            return lambda reading: reading.request.by_name().get(low)
        case InEnvelope(path):
            return lambda reading: dig(reading.envelope, path)
        case Joined(places, by):
            reads = [read_at(each) for each in places]
            return lambda reading: _joined([as_text(read(reading)) for read in reads], by)
        case _:
            return lambda reading: place(reading.event)


def read_first(places: tuple[Place, ...]) -> Read:
    """What finds the first value that is there at *places*; an empty text is none, and is only given where it is all
    that the last place has."""
    reads = [read_at(place) for place in places]
    if not reads:
        return lambda reading: None
    *others, last = reads
    if not others:
        return last

    def read(reading: Reading) -> Any:
        for other in others:
            value = other(reading)
            if value is not None and value != "":
                return value
        return last(reading)

    return read


def _joined(texts: list[str | None], by: str) -> str | None:
    return by.join(text or "" for text in texts) if texts and texts[0] else None


def dig(document: Any, path: str) -> Any:
    """The value at *path*, or None where a step is missing or of another shape."""
    for step in steps_of(path):
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
        if document is None:
            return None
    return document


def put(document: dict[str, Any], path: str, value: Any) -> None:
    """Set *path* in *document*, making objects on the way; a step that is in the way is left alone."""
    steps = steps_of(path)
    for step in steps[:-1]:
        document = document.setdefault(step, {}) if isinstance(document, dict) else {}
    if isinstance(document, dict):
        document[steps[-1]] = value


def without(document: Any, paths: tuple[str, ...]) -> Any:
    """*document* without *paths*; only the objects on the way are copied."""
    for path in paths:
        document = _without(document, steps_of(path))
    return document


def _without(document: Any, steps: tuple[Any, ...]) -> Any:
    if not isinstance(document, dict) or steps[0] not in document:
        return document
    copy = dict(document)
    if len(steps) == 1:
        del copy[steps[0]]
    else:
        copy[steps[0]] = _without(copy[steps[0]], steps[1:])
    return copy


@lru_cache(maxsize=1024)
def steps_of(path: str) -> tuple[Any, ...]:
    """The members and positions that *path* leads through."""
    steps: list[Any] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[([0-9]{1,6})\]", path):
        steps.append(int(index) if index else name)
    return tuple(steps)


def as_text(value: Any) -> str | None:
    """A JSON scalar as text (`true`, `7`, `abc`); None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return None
