"""Figures of one slot of time, and what follows from them: rates, shares and quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hooklane.model.clock import Instant

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400)
"""The bounds of the counts that say how long something took; one more counts what took longer."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(slots=True)
class Figures:
    """What was counted in one slot, of a tenant or of one endpoint; gauges are None where nothing was measured."""

    published: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    first: int = 0
    attempt: list[int] = field(default_factory=list)
    delivery: list[int] = field(default_factory=list)
    reasons: dict[str, dict[str, int]] = field(default_factory=dict)
    """Why attempts failed, by endpoint."""
    said: dict[str, int] = field(default_factory=dict)
    """What receivers say that they did."""
    endpoints: dict[str, int] = field(default_factory=dict)
    """Attempts of the busiest endpoints."""
    backlog: int | None = None
    oldest_s: int | None = None
    blocked: int | None = None
    dead: int | None = None

    def add(self, other: Figures) -> None:
        """Count what *other* counted as well; of gauges the later one holds."""
        self.published += other.published
        self.first += other.first
        _add(self.outcomes, other.outcomes)
        _add(self.said, other.said)
        _add(self.endpoints, other.endpoints)
        for endpoint_id, reasons in other.reasons.items():
            _add(self.reasons.setdefault(endpoint_id, {}), reasons)
        self.attempt = added(self.attempt, other.attempt)
        self.delivery = added(self.delivery, other.delivery)
        self.set_gauges(other)

    def set_gauges(self, other: Figures) -> None:
        self.backlog = self.backlog if other.backlog is None else other.backlog
        self.oldest_s = self.oldest_s if other.oldest_s is None else other.oldest_s
        self.blocked = self.blocked if other.blocked is None else other.blocked
        self.dead = self.dead if other.dead is None else other.dead

    @property
    def delivered(self) -> int:
        return self.outcomes.get("delivered", 0)

    @property
    def attempts(self) -> int:
        return sum(self.outcomes.values())

    @property
    def first_try(self) -> float | None:
        """The share of deliveries that landed at the first attempt."""
        return share(self.first, sum(self.delivery))

    @property
    def eventual(self) -> float | None:
        """The share of what was settled that was delivered, at whichever attempt."""
        return share(self.delivered, self.delivered + self.outcomes.get("dead", 0))

    @property
    def success(self) -> float | None:
        """The share of attempts that were answered 2xx."""
        return share(self.delivered, self.attempts)


def _add(mine: dict[str, int], theirs: Mapping[str, int]) -> None:
    for name, many in theirs.items():
        mine[name] = mine.get(name, 0) + many


def added(mine: Sequence[int], theirs: Sequence[int]) -> list[int]:
    """Counts of the same bounds, added up; none are none."""
    if not mine or not theirs:
        return list(mine or theirs)
    return [one + other for one, other in zip(mine, theirs, strict=True)]


def share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def quantiles_ms(counts: Sequence[int]) -> dict[str, float | None]:
    """Milliseconds below which half, 95 % and 99 % of what was counted lies, as near as the bounds tell."""
    return {name: quantile_ms(counts, part) for name, part in QUANTILES.items()}


def quantile_ms(counts: Sequence[int], part: float) -> float | None:
    total = sum(counts)
    if not total:
        return None
    wanted, below, low = part * total, 0, 0.0
    for count, bound in zip(counts, SECONDS, strict=False):
        if count and below + count >= wanted:
            return round(1000 * (low + (bound - low) * (wanted - below) / count), 1)
        below, low = below + count, bound
    return 1000.0 * SECONDS[-1]  # it took longer than the last bound; how much is not known


def slot_of(at: int, step_s: int) -> Instant:
    """When the slot that *at* is in began."""
    return Instant(at - at % (1000 * step_s))


def merged(some: Iterable[Figures]) -> Figures:
    total = Figures()
    for one in some:
        total.add(one)
    return total
