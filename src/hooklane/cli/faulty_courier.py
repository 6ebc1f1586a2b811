"""A courier that loses answers, or fails, on purpose: what `[f]` of `hooklane dev` turns on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hooklane.cli.faults import Faults
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Target, Timings
from hooklane.sender.courier import Courier


class FaultyCourier:
    """Carries as the courier behind it does, but for the `faults`, which may be changed at any time."""

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
