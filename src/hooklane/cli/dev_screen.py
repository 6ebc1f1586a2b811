"""What `hooklane dev` shows: where everything is, one line for each attempt, and what waits behind what."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from hooklane import __version__
from hooklane.cli import output
from hooklane.cli.attempt_line import attempt_line, waiting_line
from hooklane.cli.client import address_of, connection_to, why_unreachable
from hooklane.cli.forward import NAME as FORWARD_NAME
from hooklane.cli.output import aside, plain, say, say_json, sign
from hooklane.model.lane import Grown
from hooklane.server.attempt_views import settled_attempt
from hooklane.telemetry.deliveries import Happening, Queued, Recorded

PROBE_S = 2.0
KEYS = "[s] send sample  [r] replay last  [f] faults  [o] open  [q] quit"


def banner(address: str, db: str, forward: tuple[str, str] | None, *, is_demo: bool, keys: bool) -> list[str]:
    lines = [
        f"hooklane {__version__}  ·  data {plain(db.removeprefix('sqlite:///'))} (kept between runs)",
        f"Dashboard    {address}",
    ]
    if forward is not None:
        url, secret = forward
        lines += [
            f"Send to      {address}/in/dev",
            f"Forward to   {plain(url)}   {answering(url)}",
            f"Secret       {secret[:10]}…  (same after restart)   export HOOKLANE_SECRET={secret}",
            "Local only: no public URL. Put your own tunnel in front if a provider must reach it.",
        ]
    elif not is_demo:
        lines.append("Send         hooklane send order.created '{\"id\": 1}' --key order:1")
    if keys:
        lines.append(KEYS)
    return lines


def print_banner(lines: list[str]) -> None:
    for line in lines:
        aside(f"  {line}")


def answering(url: str) -> str:
    """Whether a server answers there, asked with HEAD, which no handler of webhooks acts on."""
    address = address_of(url)
    if address is None:
        return ""
    connection = connection_to(address, PROBE_S)
    try:
        connection.request("HEAD", address.path or "/")
        return f"{sign('ok', sys.stderr)} answering ({connection.getresponse().status} on HEAD)"
    except (OSError, http.client.HTTPException) as error:
        why = plain(why_unreachable(error))
        return f"{sign('look', sys.stderr)} no server answers there yet ({why}): what is sent is kept and retried"
    finally:
        connection.close()


class Printer:
    """Listens to what happens, and prints it. Where nobody can read that any more, it is a reason to stop."""

    def __init__(self, unprinted: list[OSError]) -> None:
        """*unprinted* takes why nothing more can be printed."""
        self._unprinted = unprinted
        self.stop: Callable[[], None] = lambda: None
        self._stuck: dict[tuple[str, str], int] = {}
        """The head of each lane whose last attempt failed."""
        self._names: dict[str, str | None] = {}
        """What each endpoint is called in a line: one key has a lane of its own, with its own numbers, at each."""
        self.last_event: str | None = None

    def __call__(self, happening: Happening) -> None:
        if self._unprinted:
            return
        try:
            self._print(happening)
        except OSError as error:  # its reader went away, as `head` does, or its disk is full: no fault of a delivery
            self._unprinted.append(error)
            self.stop()

    def _print(self, happening: Happening) -> None:
        match happening:
            case Recorded(settlements=settlements):
                for settlement in settlements:
                    endpoint = settlement.send.endpoint
                    self._names[endpoint.id] = None if endpoint.name == FORWARD_NAME else endpoint.name or endpoint.id
                    self._tell(settled_attempt(settlement))
            case Queued(grown=grown) if self._stuck and not output.as_json:
                for one in grown:
                    self._tell_waiting(one)
            case _:
                pass

    def _tell(self, one: Mapping[str, Any]) -> None:
        self.last_event = one["event"]
        if one["key"] is not None and one["seq"] is not None:
            lane = (one["endpoint"], one["key"])
            if one["outcome"] == "delivered":
                self._stuck.pop(lane, None)
            else:
                self._stuck[lane] = one["seq"]
        if output.as_json:
            say_json(one)
        else:
            say(attempt_line(one, self._names[one["endpoint"]]))

    def _tell_waiting(self, one: Grown) -> None:
        head = None if one.key is None else self._stuck.get((one.endpoint_id, one.key))
        if head is not None and one.seq > head:
            now = datetime.now(UTC).isoformat()
            type_ = one.event.type if one.event is not None else "-"
            event = {"started_at": now, "type": type_, "key": one.key, "seq": one.seq}
            say(waiting_line(event, head, self._names[one.endpoint_id]))
