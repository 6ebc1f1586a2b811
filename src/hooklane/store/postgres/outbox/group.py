"""How do many publishers share one commit when one lane is held? Its events are set aside; the others go on.

An application may keep a lane locked in an open transaction of its own for as long as it likes. A draft that
meets such a lock is answered `Refused(BUSY, …)`: nothing of it was stored, and it belongs into a later commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import asyncpg

from hooklane.errors import InvalidEvent, StoreBusy, StoreError
from hooklane.model.lane import Grown
from hooklane.store.caller.flow import Flow, Statement, T
from hooklane.store.endpoint_cache import EndpointCache
from hooklane.store.outbox import BUSY, Draft, NotAll, Placer, Published, PublishReport, Refused, all_or_nothing
from hooklane.store.postgres.database import Database
from hooklane.store.postgres.driver_errors import Unknown
from hooklane.store.postgres.outbox.publish import publish
from hooklane.store.postgres.outbox.publish_in_one import PublishInOne
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.postgres.transactions import LOCK_WAIT_MS

GROUP_WAIT_MS = 50
"""Other group commits hold a lane for a few milliseconds, a caller's transaction for as long as it likes."""
ALONE_WAIT_MS = 10
DOUBLED = 20
SEEN_MAX = 131_072
BUSY_MAX = 25
"""After so many drafts that had to wait one by one, the rest is set aside untried."""

_BUSY = Refused(BUSY, "a transaction that is still open holds this lane or name: try again")

Lane = tuple[str, str]
"""Endpoint and key."""


@dataclass(slots=True)
class Group:
    """Publishes many drafts in one commit; drafts whose lane another transaction holds are set aside."""

    db: Database
    placer: Placer
    cache: EndpointCache = field(default_factory=EndpointCache)
    _doubled: int = 0
    """How many commits with names go the longer way at once."""
    _seen: dict[Lane, int] = field(default_factory=dict)
    """A seq that was given in a lane: the database begins there to look for the last one."""
    _held: set[Lane] = field(default_factory=set)
    """Lanes that were found held: the next commit looks before it waits for them again."""

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        try:
            return await self._repeated(lambda again: self._publish(drafts, again))
        except asyncpg.LockNotAvailableError:
            # Not even a look at the lanes was possible: another session holds a whole table, to index it for instance.
            return PublishReport([_BUSY] * len(drafts))

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        """All or nothing; it has a commit of its own, so it may wait for the transaction that holds a lane."""

        def flow(again: bool) -> Flow[PublishReport]:
            return all_or_nothing((yield from publish(drafts, self.placer, self.cache, again=again)))

        async def attempt(again: bool) -> PublishReport:
            report = None if again else await self._at_once(drafts, LOCK_WAIT_MS, whole=True)
            if report is not None:
                return report
            return await self.db.try_write(lambda: flow(again), lock_wait_ms=LOCK_WAIT_MS)

        try:
            return await self._repeated(attempt)
        except NotAll as refused:
            return refused.report
        except asyncpg.LockNotAvailableError as error:
            raise StoreBusy("a transaction elsewhere that is still open holds a key of this batch") from error

    async def _repeated(self, attempt: Callable[[bool], Awaitable[T]]) -> T:
        """When a commit may have happened (here, or at an earlier call), ask for our own ids instead of guessing."""
        try:
            return await attempt(False)
        except (Unknown, asyncpg.UniqueViolationError):
            pass
        try:
            return await attempt(True)
        except asyncpg.UniqueViolationError as error:
            raise StoreError(f"PostgreSQL: {error}") from error

    async def _publish(self, drafts: Sequence[Draft], again: bool) -> PublishReport:
        lanes = [self._lanes_of(draft) for draft in drafts] if self._held else []
        if not any(lane in self._held for some in lanes for lane in some):
            try:
                return await self._commit(drafts, again)
            except asyncpg.LockNotAvailableError:
                pass
        aside = await self._set_aside(drafts)
        free = [draft for draft, is_aside in zip(drafts, aside, strict=True) if not is_aside]
        try:
            report = await self._commit(free, again) if free else PublishReport(())
        except asyncpg.LockNotAvailableError:
            # A name or a lane that another transaction is creating: no row shows it, so they are tried one by one.
            report = await self.db.try_write(lambda: self._each(free, again), lock_wait_ms=ALONE_WAIT_MS)
        results = iter(report.results)
        return PublishReport([_BUSY if is_aside else next(results) for is_aside in aside], report.grown)

    async def _commit(self, drafts: Sequence[Draft], again: bool) -> PublishReport:
        report = None if again else await self._at_once(drafts, GROUP_WAIT_MS)
        if report is not None:
            return report
        return await self.db.try_write(
            lambda: publish(drafts, self.placer, self.cache, again=again), lock_wait_ms=GROUP_WAIT_MS
        )

    async def _at_once(
        self, drafts: Sequence[Draft], lock_wait_ms: int, *, whole: bool = False
    ) -> PublishReport | None:
        """In one round trip; None where that cannot be, or the endpoints had changed: then nothing was stored.

        With *whole* also where one draft is refused, and with it all.
        """
        if self.db.pool.is_pooled or self._are_doubled(drafts):
            return None
        known = self.cache.known
        tenants = {draft.event.tenant for draft in drafts}
        if not tenants <= known.keys():
            return None
        if len(self._seen) > SEEN_MAX:
            self._seen.clear()
        in_one = PublishInOne(drafts, self.placer, {tenant: known[tenant] for tenant in tenants}, self._seen)
        if not in_one.is_plain or (whole and in_one.refuses):
            return None
        try:
            return in_one.report(await self.db.once(in_one.statement(lock_wait_ms)))
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
            return None  # lost a race: the longer way does not mind
        except asyncpg.UniqueViolationError:
            self._doubled = DOUBLED
            return None  # the longer way finds out which event has the name

    def _are_doubled(self, drafts: Sequence[Draft]) -> bool:
        """Whether one of *drafts* may want a name that is taken: where one did, others will, and each costs a try."""
        if not self._doubled or not any(draft.names for draft in drafts):
            return False
        self._doubled -= 1
        return True

    def _lanes_of(self, draft: Draft) -> list[Lane]:
        """As far as the cache knows: a lane that is missed here is met by the commit itself."""
        try:
            places = self.placer(draft.event, draft.asked, self.cache.last(draft.event.tenant))
        except InvalidEvent:
            return []  # the commit will refuse it
        return [(place.endpoint_id, place.key) for place in places if place.key is not None]

    async def _set_aside(self, drafts: Sequence[Draft]) -> list[bool]:
        """For each draft whether a lane of it is held; what follows it in the same key stays behind it."""
        lanes = [self._lanes_of(draft) for draft in drafts]
        wanted = {lane for some in lanes for lane in some}

        def look() -> Flow[set[Lane]]:
            params = {"endpoints": [endpoint for endpoint, _ in wanted], "keys": [key for _, key in wanted]}
            rows = yield Statement(SQL["lanes_held_elsewhere"], params)
            return {(endpoint, key) for endpoint, key in rows}

        held = await self.db.try_write(look, lock_wait_ms=GROUP_WAIT_MS) if wanted else set()
        self._held = (self._held - wanted) | held
        waiting = HeldKeys()
        return [
            waiting.joins(draft, any(lane in held for lane in some)) for draft, some in zip(drafts, lanes, strict=True)
        ]

    def _each(self, drafts: Sequence[Draft], again: bool) -> Flow[PublishReport]:
        """Each in a savepoint of its own, all in one commit."""
        results: list[Published | Refused] = []
        grown: list[Grown] = []
        waiting, met = HeldKeys(), 0
        for draft in drafts:
            if met >= BUSY_MAX or waiting.joins(draft, False):
                results.append(_BUSY)
                continue
            yield Statement("SAVEPOINT draft")
            try:
                report = yield from publish([draft], self.placer, self.cache, again=again)
            except asyncpg.LockNotAvailableError:
                yield Statement("ROLLBACK TO SAVEPOINT draft")
                met += waiting.joins(draft, True)
                results.append(_BUSY)
            else:
                yield Statement("RELEASE SAVEPOINT draft")
                results += report.results
                grown += report.grown
        return PublishReport(results, grown)


class HeldKeys:
    """Keys of which a draft was set aside: what comes later in such a key must not overtake it."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    def joins(self, draft: Draft, is_held: bool) -> bool:
        """Whether *draft* has to wait, for its own sake or behind another."""
        if draft.event.key is None:
            return is_held
        key = (draft.event.tenant, draft.event.key)
        if is_held:
            self._keys.add(key)
        return key in self._keys
