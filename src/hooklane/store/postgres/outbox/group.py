"""How do many publishers share one commit when one lane is held? Its events are set aside; the others go on.

An application may keep a lane's counter locked in an open transaction of its own for as long as it likes. A draft that
meets such a lock is answered `Refused("busy", …)`: nothing of it was stored, and it belongs into the next commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg

from hooklane.errors import InvalidEvent
from hooklane.model.lane import Place
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.outbox import Draft, Placer, Published, PublishReport, Refused
from hooklane.store.postgres.database import Database, Unknown
from hooklane.store.postgres.outbox.publish import EndpointCache, publish

BUSY = "busy"
LOCK_WAIT_MS = 50
"""Other group commits hold a counter for a few milliseconds, a caller's transaction for as long as it likes."""
LOCK_WAIT_ALONE_MS = 10
BUSY_MAX = 25
"""After so many drafts that had to wait one by one, the rest is set aside untried."""

_HELD = """
SELECT t.endpoint_id, t.key FROM hooklane.lane_tail t
JOIN unnest(:endpoints::text[], :keys::text[]) AS w (endpoint_id, key) USING (endpoint_id, key)
WHERE t.lane_id <> ALL(ARRAY(
    SELECT f.lane_id FROM hooklane.lane_tail f
    JOIN unnest(:endpoints::text[], :keys::text[]) AS v (endpoint_id, key) USING (endpoint_id, key)
    ORDER BY f.endpoint_id, f.key FOR UPDATE OF f SKIP LOCKED))
"""


@dataclass(slots=True)
class Group:
    """Publishes many drafts in one commit, whoever holds what."""

    db: Database
    placer: Placer
    cache: EndpointCache = field(default_factory=EndpointCache)

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        again = False
        for _ in range(3):
            try:
                return await self._try(drafts, again)
            except (Unknown, asyncpg.UniqueViolationError) as error:
                # The commit may have happened, here or at an earlier call: ask for our own ids instead of guessing.
                if again:
                    raise
                again = True
                last: Exception = error
        raise last

    async def _try(self, drafts: Sequence[Draft], again: bool) -> PublishReport:
        try:
            return await self.db.try_write(
                lambda: publish(drafts, self.placer, self.cache, again=again), lock_wait_ms=LOCK_WAIT_MS
            )
        except asyncpg.LockNotAvailableError:
            pass
        held = await self.db.try_write(lambda: self._held(drafts), lock_wait_ms=LOCK_WAIT_MS)
        free = [draft for draft, is_held in zip(drafts, held, strict=True) if not is_held]
        try:
            report = await self.db.try_write(
                lambda: publish(free, self.placer, self.cache, again=again), lock_wait_ms=LOCK_WAIT_MS
            )
        except asyncpg.LockNotAvailableError:
            # A name or a lane that somebody is only just creating: no row shows it, so they are tried one by one.
            report = await self._one_by_one(free, again)
        results = iter(report.results)
        return PublishReport([_busy() if is_held else next(results) for is_held in held], report.grown)

    def _held(self, drafts: Sequence[Draft]) -> Flow[list[bool]]:
        """For each draft whether one of its lanes is held; what follows it in the same key waits behind it."""
        places: dict[int, Sequence[Place]] = {}
        for index, draft in enumerate(drafts):
            endpoints = self.cache.endpoints.get(draft.event.tenant, ())
            asked = None if draft.asked is None else [e.id for e in endpoints if e.id in draft.asked]
            try:
                found = self.placer(draft.event, asked, endpoints)
            except InvalidEvent:
                found = []  # it will be refused
            places[index] = [place for place in found if place.key is not None]
        lanes = {(place.endpoint_id, place.key) for some in places.values() for place in some}
        rows = yield Statement(_HELD, {"endpoints": [e for e, _ in lanes], "keys": [key for _, key in lanes]})
        held = {(endpoint, key) for endpoint, key in rows}
        behind: set[tuple[str, str | None]] = set()
        answers: list[bool] = []
        for index, draft in enumerate(drafts):
            line = (draft.event.tenant, draft.event.key)
            is_held = line in behind or any((place.endpoint_id, place.key) in held for place in places[index])
            if is_held and draft.event.key is not None:
                behind.add(line)
            answers.append(is_held)
        return answers

    async def _one_by_one(self, drafts: Sequence[Draft], again: bool) -> PublishReport:
        """Each in a savepoint of its own, all in one commit."""

        def each() -> Flow[PublishReport]:
            results: list[Published | Refused] = []
            grown = []
            behind: set[tuple[str, str | None]] = set()
            met = 0
            for draft in drafts:
                line = (draft.event.tenant, draft.event.key)
                if line in behind or met >= BUSY_MAX:
                    results.append(_busy())
                    continue
                yield Statement("SAVEPOINT draft")
                try:
                    report = yield from publish([draft], self.placer, self.cache, again=again)
                except asyncpg.LockNotAvailableError:
                    yield Statement("ROLLBACK TO SAVEPOINT draft")
                    results.append(_busy())
                    met += 1
                    if draft.event.key is not None:
                        behind.add(line)
                    continue
                yield Statement("RELEASE SAVEPOINT draft")
                results += report.results
                grown += report.grown
            return PublishReport(results, grown)

        return await self.db.try_write(each, lock_wait_ms=LOCK_WAIT_ALONE_MS)


def _busy() -> Refused:
    return Refused(BUSY, "a transaction that is still open holds this lane or name: try again")
