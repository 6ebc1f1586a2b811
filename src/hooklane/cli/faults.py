"""Which faults does a network make, on purpose? `--fault drop-ack=.1`: the work is done, and the answer is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hooklane.cli.exits import CallFailed, Exit
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Target, Timings

if TYPE_CHECKING:  # `hooklane listen --help` needs no sender
    from hooklane.sender.courier import Courier

KINDS = {
    "drop-ack": "what was done is not acknowledged: the connection ends without an answer",
    "error": "nothing is done, and the answer is 503",
    "delay": "the answer comes so many seconds late",
}


@dataclass(frozen=True, slots=True)
class Faults:
    """How often each happens: from 0 (never) to 1 (always); *delay_s* happens to all."""

    drop_ack: float = 0.0
    error: float = 0.0
    delay_s: float = 0.0

    def draw(self) -> str | None:
        """What happens to one request, by chance: `error`, `drop-ack`, or nothing."""
        roll = random.random()
        return "error" if roll < self.error else "drop-ack" if roll < self.error + self.drop_ack else None


def faults_of(given: Sequence[str] | None) -> Faults:
    """The faults that `--fault` asks for."""
    found: dict[str, float] = {}
    for text in given or ():
        kind, equals, value = text.partition("=")
        try:
            number = float(value.removesuffix("s")) if equals else 1.0
        except ValueError:
            number = -1.0
        most = 60.0 if kind == "delay" else 1.0
        if kind not in KINDS or not 0 <= number <= most:
            raise CallFailed(
                f"--fault is drop-ack=P or error=P with P from 0 to 1, or delay=SECONDS; got {text!r}", Exit.USAGE
            )
        found[kind] = number
    if found.get("drop-ack", 0) + found.get("error", 0) > 1:
        raise CallFailed("--fault drop-ack and error together cannot be more than 1", Exit.USAGE)
    return Faults(found.get("drop-ack", 0.0), found.get("error", 0.0), found.get("delay", 0.0))


class FaultyCourier:
    """Carries as the courier behind it does, but for the `faults`, which `[f]` of `hooklane dev` changes."""

    def __init__(self, courier: Courier) -> None:
        self.faults = Faults()
        self._courier = courier

    @property
    def connections_max(self) -> int:
        return self._courier.connections_max

    def send(self, target: Target, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        match self.faults.draw():
            case "error":
                asyncio.get_running_loop().call_soon(done, Answer(503, Timings(0.0)))
            case "drop-ack":
                self._courier.send(target, headers, body, lambda result: done(_lost(result)))
            case _:
                self._courier.send(target, headers, body, done)

    async def close(self, grace_ms: int) -> None:
        await self._courier.close(grace_ms)


def _lost(result: Result) -> Result:
    return NoAnswer(Failure.RESET, result.timings, "the answer was dropped on purpose", sent=True)
