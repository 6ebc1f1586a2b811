"""Which faults does a network make, on purpose? `--fault drop-ack=.1`: the work is done, and the answer is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hooklane.cli.exits import CallFailed, Exit

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
