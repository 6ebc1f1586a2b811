"""Which ids, keys and endpoints may a person mean who presses the tab key? Asked quickly; any trouble is silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.cli.client import Caller

WITHIN_S = 1.0
MOST = 50

Completer = Callable[[Any, str], list[tuple[str, str]]]


def _completer(find: Callable[[Caller, str], Iterator[tuple[str, str]]]) -> Completer:
    # The types of its arguments are how Typer knows which is which.
    def complete(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
        with suppress(BaseException):  # a shell that waits for a word must not be shown why there is none
            from hooklane.cli.client import calling_quickly

            with calling_quickly(ctx.params.get("server"), ctx.params.get("db"), WITHIN_S) as caller:
                found = (one for one in find(caller, incomplete) if one[0].startswith(incomplete))
                return [pair for pair, _ in zip(found, range(MOST), strict=False)]
        return []

    return complete


def _endpoints(caller: Caller, _: str) -> Iterator[tuple[str, str]]:
    for one in caller.get("/api/v1/endpoints")["items"]:
        if one["name"]:
            yield one["name"], one["url"]
        yield one["id"], one["url"]


def _events(caller: Caller, _: str) -> Iterator[tuple[str, str]]:
    for one in caller.get("/api/v1/events", {"limit": 200})["items"]:
        yield one["id"], f"{one['type']} {one['key'] or ''}".strip()


def _keys(caller: Caller, incomplete: str) -> Iterator[tuple[str, str]]:
    for one in caller.get("/api/v1/lanes", {"q": incomplete or None, "limit": 200})["items"]:
        yield one["key"], f"{one['state']} at {one['endpoint_name'] or one['endpoint']}"


def _letters(caller: Caller, _: str) -> Iterator[tuple[str, str]]:
    for one in caller.get("/api/v1/dead-letters", {"limit": 200})["items"]:
        yield one["id"], f"{one['key'] or 'no key'} #{one['seq']} {one['reason']}"


endpoints = _completer(_endpoints)
events = _completer(_events)
keys = _completer(_keys)
letters = _completer(_letters)
