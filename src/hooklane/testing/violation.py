"""Which promise of the sender was broken? Numbers and names are those of the design."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = {
    1: "stamp",
    2: "accept is final",
    3: "first-ack order",
    4: "send order",
    5: "durable order",
    6: "ack needs a 2xx",
    7: "head is monotone",
    8: "epoch fence",
    9: "one owner per epoch",
    10: "one in flight",
    11: "zombies are never ahead",
    12: "dead means stopped",
    13: "bounded attempts",
    14: "duplicates need a reason",
    15: "late copies are old",
    16: "backoff",
    17: "identity",
    18: "skip is explicit",
    19: "progress",
    20: "isolation",
    21: "takeover",
    22: "recovery",
    23: "innocence",
    24: "what is lost is told",
    25: "no seq is used twice in silence",
    26: "delivered means taken",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    number: int
    detail: str

    @property
    def name(self) -> str:
        return NAMES[self.number]

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.detail}"
