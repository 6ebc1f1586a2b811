"""A network without a network: requests are answered on the next turn of the loop, as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hooklane.model.exchange import Answer, Result, Target, Timings

OK = Answer(200, Timings(0.1))
BAD = Answer(422, Timings(0.1))


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as the receiver sees it."""

    endpoint_id: str
    id: str
    key: str | None
    seq: int | None
    body: bytes


def _field(headers: bytes, name: bytes) -> str | None:
    start = headers.find(b"\r\n" + name + b": ")
    if start < 0:
        return None
    start += len(name) + 4
    return headers[start : headers.index(b"\r\n", start)].decode()


class Wire:
    """Stands where the transport stands. *react* says what comes of a request; None loses it for good."""

    def __init__(self, react: Callable[[Sent], Result | None] = lambda _: OK) -> None:
        self.react = react
        self.connections_max = 512
        self.sent: list[Sent] = []

    def send(self, target: Target, headers: bytes, body: bytes, done: Callable[[Result], Any]) -> None:
        seq = _field(headers, b"X-Seq")
        one = Sent(
            target.endpoint_id,
            _field(headers, b"webhook-id") or "",
            _field(headers, b"X-Key"),
            None if seq is None else int(seq),
            body,
        )
        self.sent.append(one)
        result = self.react(one)
        if result is not None:
            asyncio.get_running_loop().call_soon(done, result)

    async def close(self, grace_ms: int) -> None:
        """Nothing to end."""
