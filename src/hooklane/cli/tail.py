"""`hooklane tail`: attempts as they happen, of a server or of a database."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Annotated, Any

import typer

from hooklane.cli import output
from hooklane.cli.attempt_line import attempt_line
from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import keep, rfc3339_of
from hooklane.cli.options import Db, EndpointFilter, KeyFilter, Server
from hooklane.cli.output import plain, say, say_json, talk
from hooklane.cli.times import since as time_since
from hooklane.model.attempt import OUTCOMES

POLL_S = 1.0
"""What worker processes deliver is not in the stream: it is asked for, this often."""
PAGE = 200
SEEN_MAX = 20_000
LANE_STATES = ("idle", "active", "retrying", "blocked", "paused")


def tail(
    lanes: Annotated[bool, typer.Option("--lanes", help="Show lanes that change instead of attempts.")] = False,
    endpoint: EndpointFilter = None,
    key: KeyFilter = None,
    type_: Annotated[str | None, typer.Option("--type", help="Of this type; `*` stands for anything.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help=f"Some of {','.join(OUTCOMES)}; with --lanes some of {','.join(LANE_STATES)}.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Begin with events published since (or -10m).")
    ] = None,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.001, max=31_622_400, help="End after so long.")
    ] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Show attempts as they happen.

    One a line, until interrupted. What worker processes deliver is shown about a second later.
    """
    states = _states(state, LANE_STATES if lanes else OUTCOMES)
    begin = rfc3339_of(since, "--since")
    with calling(server, db) as caller:
        names = {one["id"]: one["name"] or one["id"] for one in caller.get("/api/v1/endpoints")["items"]}
        exact = {"endpoint": caller.endpoint_id(endpoint) if endpoint else None, "key": key}
        is_of_type = keep({} if type_ is None else {"type": type_})
        if lanes and type_ is not None:
            raise CallFailed("--type is for attempts: a lane has events of any type", Exit.USAGE)
        source = _Lanes(server, db, caller) if lanes else _Attempts(server, db, caller, begin)
        word = "state" if lanes else "outcome"
        deadline = None if for_s is None else time.monotonic() + for_s
        talk(f"following, until {'Ctrl-C' if for_s is None else f'{for_s:g} s are over'}")
        with suppress(KeyboardInterrupt):  # which is how one ends it
            for one in source.follow(deadline):
                if not is_of_type(one) or (states and one[word] not in states):
                    continue
                if any(value not in (None, one[field]) for field, value in exact.items()):
                    continue
                if output.as_json:
                    say_json(one)
                elif lanes:
                    say(_lane_line(one))
                else:
                    say(attempt_line(one, names.get(one["endpoint"], one["endpoint"])))


def _states(text: str | None, known: tuple[str, ...]) -> set[str]:
    states = set() if text is None else set(text.split(","))
    if unknown := states - set(known):
        raise CallFailed(f"--state is some of {','.join(known)}; got {sorted(unknown)[0]!r}", Exit.USAGE)
    return states


def _lane_line(lane: Mapping[str, Any]) -> str:
    at = datetime.now().astimezone().strftime("%H:%M:%S")
    waits = f"   {lane['waiting']} waiting" if lane["waiting"] else ""
    for_ = f"   for {time_since(lane['since'])}" if lane["since"] and lane["state"] not in ("idle", "active") else ""
    reason = f"   {plain(lane['reason'])}" if lane["reason"] else ""
    where = plain(lane["endpoint_name"] or lane["endpoint"])
    return f"{at}  {plain(lane['key']):<18} {where:<12} #{lane['head']:<5} {lane['state']:<9}{waits}{for_}{reason}"


class _Stream:
    """What a server tells while it happens, read by a thread of its own; nothing for a database."""

    def __init__(self, server: str | None, db: str | None, topic: str) -> None:
        self._where = (server, db)
        self._topic = topic
        self.failed: CallFailed | None = None
        self.told: SimpleQueue[Mapping[str, Any]] = SimpleQueue()

    def start(self) -> None:
        threading.Thread(target=self._run, name="stream", daemon=True).start()

    def _run(self) -> None:
        import msgspec

        try:
            with calling(*self._where) as caller:
                kind = b""
                lines = caller.lines("/api/v1/stream", {"topics": self._topic}, accept="text/event-stream")
                for line in lines:
                    name, _, value = line.strip().partition(b": ")
                    if name == b"event":
                        kind = value
                    elif name == b"data" and kind == self._topic.encode():
                        for one in msgspec.json.decode(value)["items"]:
                            self.told.put(one)
            self.failed = CallFailed("the server ended the stream", Exit.UNREACHABLE)
        except CallFailed as failure:
            self.failed = failure

    def next(self, most_s: float) -> Mapping[str, Any] | None:
        try:
            return self.told.get(timeout=max(0.001, most_s))
        except Empty:
            if self.failed is not None:
                raise self.failed from None
            return None


class _Attempts:
    """Attempts of the stream, and of the log what the stream did not tell; each once."""

    def __init__(self, server: str | None, db: str | None, caller: Caller, begin: str | None) -> None:
        self._caller = caller
        self._stream = _Stream(server, db, "attempts") if caller.is_remote else None
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._begin = begin or now
        self._begins_in_the_past = begin is not None
        self._seen: set[str] = set()
        self._order: deque[str] = deque()
        self._ended: set[tuple[str, str]] = set()
        """Events and endpoints whose last attempt was shown."""

    def follow(self, deadline: float | None) -> Iterator[Mapping[str, Any]]:
        if self._stream is not None:
            self._stream.start()
        poll_at = 0.0 if self._begins_in_the_past else time.monotonic() + POLL_S
        while deadline is None or time.monotonic() < deadline:
            if time.monotonic() >= poll_at:
                yield from filter(self._is_new, self._missed())
                poll_at = time.monotonic() + POLL_S
            left = min(poll_at, deadline or poll_at) - time.monotonic()
            if self._stream is None:
                time.sleep(max(0.0, left))
            elif (one := self._stream.next(left)) is not None and self._is_new(one):
                yield one

    def _missed(self) -> list[Mapping[str, Any]]:
        """What the stream has not told, oldest first: a server knows what its workers tried of late."""
        found: list[Mapping[str, Any]] = []
        if self._stream is None or self._begins_in_the_past:
            found += self._logged()
            self._begins_in_the_past = False
        if self._stream is not None:
            found += self._caller.get("/api/v1/attempts", {"after": self._begin, "limit": PAGE})["items"]
        return sorted(found, key=lambda one: str(one["started_at"]))

    def _logged(self) -> list[Mapping[str, Any]]:
        """What the log has of events published since the beginning."""
        found: list[Mapping[str, Any]] = []
        page = self._caller.get("/api/v1/events", {"after": self._begin, "limit": PAGE})
        listed: set[tuple[str, str]] = set()
        for event in page["items"]:
            places = {(event["id"], one["endpoint"]) for one in event["deliveries"]}
            listed |= places
            if places <= self._ended:
                continue
            tries = self._caller.get(f"/api/v1/events/{segment(event['id'])}/attempts")["items"]
            found += [{name: value for name, value in one.items() if name != "detail"} for one in tries]
        self._ended &= listed  # what is not listed any more is not asked about again
        return found

    def _is_new(self, one: Mapping[str, Any]) -> bool:
        if one["outcome"] != "retry":
            self._ended.add((one["event"], one["endpoint"]))
        if one["id"] in self._seen:
            return False
        self._seen.add(one["id"])
        self._order.append(one["id"])
        if len(self._order) > SEEN_MAX:
            self._seen.discard(self._order.popleft())
        return True


class _Lanes:
    """Lanes that changed: told by the stream, or found by looking."""

    def __init__(self, server: str | None, db: str | None, caller: Caller) -> None:
        self._caller = caller
        self._stream = _Stream(server, db, "lanes") if caller.is_remote else None
        self._last: dict[tuple[str, str], tuple[object, ...]] = {}

    def follow(self, deadline: float | None) -> Iterator[Mapping[str, Any]]:
        if self._stream is not None:
            self._stream.start()
        poll_at = 0.0
        while deadline is None or time.monotonic() < deadline:
            if time.monotonic() >= poll_at:
                page = self._caller.get("/api/v1/lanes", {"limit": PAGE})
                yield from filter(self._has_changed, reversed(page["items"]))
                poll_at = time.monotonic() + POLL_S * (5 if self._stream else 1)
            left = min(poll_at, deadline or poll_at) - time.monotonic()
            if self._stream is None:
                time.sleep(max(0.0, left))
            elif (one := self._stream.next(left)) is not None and self._has_changed(one):
                yield one

    def _has_changed(self, lane: Mapping[str, Any]) -> bool:
        now = tuple(lane[field] for field in ("state", "head", "tail", "attempts", "reason"))
        name = (lane["endpoint"], lane["key"])
        was, self._last[name] = self._last.get(name), now
        return was != now
