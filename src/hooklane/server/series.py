"""Figures over time: what this process counts, slot by slot, in a ring that the store keeps and all processes share.

Three rings: slots of 10 s for an hour, of a minute for a day, of ten minutes for a week. A process writes its own row
of a slot, once in ten seconds at most, and readers add the processes up. What was not written yet when a process is
killed is lost from the figures, at most a slot of the ring that is looked at: figures are no ledger.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hooklane.core.figures import Figures, merged, slot_of
from hooklane.errors import StoreError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.server.metrics import Meter
from hooklane.server.repeating import came
from hooklane.server.tally import EndpointTally, Tally
from hooklane.server.totals import Totals
from hooklane.store.dashboard import SeriesRow
from hooklane.store.open import Outbox

log = logging.getLogger("hooklane.series")

STEPS = {10: 3_600, 60: 24 * 3_600, 600: 7 * 24 * 3_600}
"""The length of a slot and of its ring, both in seconds."""
ENDPOINT_STEPS = (60, 600)
"""Rings that endpoints have as well."""
ENDPOINTS_MAX = 200
"""Endpoints of a slot that are counted one by one, the busiest; the others only in the sum."""
PLACES_MAX = 1_000
"""Tenants and endpoints of a slot together."""
BUSIEST = 20
UNWRITTEN_MAX = 5_000
PART = 20
"""Endpoints that are counted, and rows that are written, in one go: a thousand of them at once would hold up every
delivery for 30 ms."""
TENANTS_MAX = 20
"""Tenants whose backlog is measured in one round: those that were busy."""

_Place = tuple[str, str]
"""Tenant, and an endpoint or nothing."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Figures).decode


@dataclass(slots=True)
class _Slot:
    at: Instant
    figures: dict[_Place, Figures] = field(default_factory=dict)
    written: dict[_Place, bytes] = field(default_factory=dict)


class Series:
    """Counts of this process by slot (`run` writes them), and the reading of all processes' counts (`read`)."""

    def __init__(self, store: Outbox, meter: Meter, totals: Totals, now: Callable[[], Instant] = wall_now) -> None:
        self._store = store
        self._meter = meter
        self._totals = totals
        self.now = now
        self._process = os.urandom(6).hex()
        self._collected_at = now()
        self._slots = {step_s: _Slot(slot_of(self._collected_at, step_s)) for step_s in STEPS}
        self._unwritten: list[SeriesRow] = []
        """Of slots that are over."""
        self._gauges: dict[_Place, tuple[int | None, ...]] = {}
        """What was measured last."""
        self._collecting = asyncio.Lock()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Write at the end of each slot, until `stop`; what is counted then is written as well."""
        while not self._stopping.is_set():
            wait_ms = slot_of(self.now(), 10) + 10_000 - self.now()
            await came(self._stopping, wait_ms / 1000 + 0.01)
            try:
                await self.write(whole=self._stopping.is_set())
            except StoreError as error:
                log.warning("figures over time were not written, and are with the next slot: %s", error)

    def stop(self) -> None:
        self._stopping.set()

    async def write(self, *, whole: bool = False) -> None:
        """Bring the store up to date; *whole*: also the slots that still last."""
        await self._measure()
        await self.collect()
        ended = len(self._unwritten)
        rows = list(self._unwritten)
        is_minute = self._collected_at - slot_of(self._collected_at, 60) < 10_000
        for step_s, slot in self._slots.items():
            if whole or (step_s > 60 and is_minute):
                rows += self._rows(step_s, slot)
        before = {}
        if is_minute:
            before = {step_s: Instant(self._collected_at - 1000 * ring_s) for step_s, ring_s in STEPS.items()}
        if not rows and not before:
            return
        try:
            for start in range(0, max(1, len(rows)), PART):  # a row twice is the same row
                await self._store.keep_series(rows[start : start + PART], before=before if start == 0 else {})
        except StoreError:
            for slot in self._slots.values():
                slot.written.clear()  # whether it was is not known
            del self._unwritten[:-UNWRITTEN_MAX]
            raise
        del self._unwritten[:ended]  # slots that ended meanwhile are for the next time

    async def collect(self) -> None:
        """Take what was counted since the last time into the slots that last; deliveries go on in between."""
        async with self._collecting:
            now, busy = self.now(), self._meter.busy()
            # It was counted since the last time, so it belongs to the slot that lasted then.
            self._add({(tenant, ""): Figures(published=n) for tenant, n in self._meter.take_published().items()})
            for start in range(0, len(busy), PART):
                self._add(_counted(self._meter.take(busy[start : start + PART])))
                await asyncio.sleep(0)
            self._collected_at = max(now, self._collected_at)
            self._turn()

    async def _measure(self) -> None:
        """How much is owed, of the tenants that were busy."""
        busy = dict.fromkeys([DEFAULT_TENANT, *(tenant for tenant, _ in self._slots[10].figures)])
        gauges: dict[_Place, Figures] = {}
        for tenant in list(busy)[:TENANTS_MAX]:
            counted = await self._totals.of(tenant)
            oldest = counted.oldest_pending_at
            gauges[tenant, ""] = Figures(
                backlog=counted.backlog,
                oldest_s=0 if oldest is None else max(0, (self.now() - oldest) // 1000),
                blocked=counted.lanes[LaneState.BLOCKED],
                dead=counted.ledger[DeliveryState.DEAD],
            )
        self._add(gauges)

    def _add(self, counted: Mapping[_Place, Figures]) -> None:
        for step_s, slot in self._slots.items():
            for place, figures in counted.items():
                if place[1] and step_s not in ENDPOINT_STEPS:
                    continue
                if place not in slot.figures and len(slot.figures) >= (ENDPOINTS_MAX if place[1] else PLACES_MAX):
                    continue
                slot.figures.setdefault(place, Figures()).add(figures)

    def _turn(self) -> None:
        """Begin new slots where the old ones are over; those are to be written."""
        for step_s, slot in self._slots.items():
            at = slot_of(self._collected_at, step_s)
            if at != slot.at:
                self._unwritten += self._rows(step_s, slot)
                self._slots[step_s] = _Slot(at)

    def _rows(self, step_s: int, slot: _Slot) -> list[SeriesRow]:
        rows = []
        for (tenant, by), figures in slot.figures.items():
            if step_s == 10 and self._is_quiet((tenant, by), figures):
                continue
            doc = _encode(_bounded(figures))
            if slot.written.get((tenant, by)) != doc:
                slot.written[tenant, by] = doc
                rows.append(SeriesRow(tenant, step_s, by, slot.at, self._process, doc))
        return rows

    def _is_quiet(self, place: _Place, figures: Figures) -> bool:
        """Whether nothing happened and nothing is owed that was not: a server at rest writes once a minute."""
        gauges = (figures.backlog, figures.oldest_s, figures.blocked, figures.dead)
        if len(self._gauges) > 2 * PLACES_MAX:
            self._gauges.clear()
        was, self._gauges[place] = self._gauges.get(place), gauges
        return was == gauges and not figures.attempts and not figures.published

    # reading

    async def read(
        self, tenant: str, by: Sequence[str], step_s: int, since: Instant
    ) -> dict[str, dict[Instant, Figures]]:
        """The figures of each of *by* by slot, of all processes together, up to now."""
        await self.collect()
        stored = await self._store.series(tenant, by, step_s, since)
        mine = self._slots[step_s]  # as it is now: the slot may have ended while the store was asked
        rows = [row for row in stored if not self._is_mine(row, mine.at)]
        found: dict[str, dict[Instant, Figures]] = {one: {} for one in by}
        unwritten = [row for row in self._unwritten if (row.tenant, row.step_s) == (tenant, step_s) and row.by in found]
        for row in _newest([*rows, *unwritten]):
            found[row.by].setdefault(row.at, Figures()).add(_decode(row.doc))
        for one in by:
            if (figures := mine.figures.get((tenant, one))) is not None:
                found[one].setdefault(mine.at, Figures()).add(figures)
        return found

    def _is_mine(self, row: SeriesRow, at: Instant) -> bool:
        """Whether memory knows better than the store."""
        return row.process == self._process and row.at == at

    async def total(self, tenant: str, range_s: int, by: Sequence[str] = ("",)) -> dict[str, Figures]:
        """What was counted of each of *by* in the last *range_s* seconds."""
        step_s = step_for(range_s, least_s=60 if any(by) else 10)
        found = await self.read(tenant, by, step_s, since_for(self.now(), range_s, step_s))
        return {one: merged(figures for _, figures in sorted(slots.items())) for one, slots in found.items()}


def step_for(range_s: int, least_s: int = 10) -> int:
    """The finest slots that reach so far back."""
    return next((step_s for step_s, ring_s in STEPS.items() if ring_s >= range_s and step_s >= least_s), 600)


def since_for(now: Instant, range_s: int, step_s: int) -> Instant:
    return slot_of(now - 1000 * range_s + 1000 * step_s, step_s)


def _newest(rows: Iterable[SeriesRow]) -> Iterable[SeriesRow]:
    """Each row once: one that is not written yet replaces what was written of its slot."""
    return {(row.by, row.at, row.process): row for row in rows}.values()


def _counted(taken: Tally) -> dict[_Place, Figures]:
    """By endpoint, and by tenant together."""
    counted: dict[_Place, Figures] = {}
    for endpoint_id, one in taken.endpoints.items():
        counted[one.tenant, endpoint_id] = _figures_of(endpoint_id, one)
        counted.setdefault((one.tenant, ""), Figures()).add(counted[one.tenant, endpoint_id])
    return counted


def _figures_of(endpoint_id: str, one: EndpointTally) -> Figures:
    return Figures(
        outcomes=dict(one.outcomes),
        first=one.first,
        attempt=list(one.attempt.counts),
        delivery=list(one.delivery.counts),
        reasons={endpoint_id: dict(one.reasons)} if one.reasons else {},
        said=dict(one.said),
        endpoints={endpoint_id: sum(one.outcomes.values())},
    )


def _bounded(figures: Figures) -> Figures:
    """Of very many endpoints the busiest: a row must stay small."""
    if len(figures.endpoints) <= BUSIEST and len(figures.reasons) <= BUSIEST:
        return figures
    busiest = sorted(figures.endpoints.items(), key=lambda one: -one[1])[:BUSIEST]
    worst = sorted(figures.reasons.items(), key=lambda one: -sum(one[1].values()))[:BUSIEST]
    bounded = Figures()
    bounded.add(figures)
    bounded.endpoints, bounded.reasons = dict(busiest), dict(worst)
    return bounded
