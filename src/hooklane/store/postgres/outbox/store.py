"""The PostgreSQL outbox: each verb is a flow; this class says in which kind of transaction it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import asyncpg

from hooklane.errors import StoreUnavailable
from hooklane.model.attempt import Write
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneRow
from hooklane.store.budget import SEARCH_S_MAX
from hooklane.store.outbox import CommitReport, Draft, Load, News, PublishReport, StoreOptions, Taken
from hooklane.store.postgres.database import Database
from hooklane.store.postgres.driver_errors import RACES, Unknown
from hooklane.store.postgres.inbox.store import VERBS, PostgresVerbs
from hooklane.store.postgres.outbox import acks, commit, fold_acks, lanes
from hooklane.store.postgres.outbox.ack_vacuum import AckVacuum
from hooklane.store.postgres.outbox.group import Group
from hooklane.store.postgres.outbox.statements import statement_of
from hooklane.store.postgres.runs import OtherRun
from hooklane.store.sql.migration_files import migrations_of
from hooklane.store.sql.outbox.colocated_inbox import InboxFlows
from hooklane.store.sql.outbox.steps import Flow
from hooklane.store.sql.outbox.store import SqlOutbox

T = TypeVar("T")
COMPONENT = "outbox"
MIGRATIONS = "hooklane.store.postgres.outbox.migrations"
FOLDS_MAX = 20


class PostgresOutbox(SqlOutbox):
    """One database, any number of workers; partitions and epochs say who may write what."""

    _inbox = InboxFlows(VERBS, PostgresVerbs())

    def __init__(self, url: str, options: StoreOptions) -> None:
        self.db = Database(url, size=int(options.extra.get("connections", 8)), statement_of=statement_of)
        self._group = Group(self.db, options.placer)
        self._vacuum = AckVacuum()
        self._taken: dict[int, tuple[str, int, int]] = {}
        """Of each partition that was acquired: by whom, under which epoch, and in which run of the server."""
        self._taken_in: int | None = None
        """The run in which partitions were acquired last."""

    @property
    def run(self) -> int:
        return self.db.pool.runs.now

    async def open(self) -> None:
        await self.db.open()
        try:
            await self.db.migrate(COMPONENT, migrations_of(MIGRATIONS))
        except BaseException:
            await self.db.close()
            raise

    async def close(self) -> None:
        await self.db.close()

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        """As promised, but for a draft that meets a lock of a caller's open transaction: that one is `busy`."""
        return self._fed(await self._group.publish(drafts))

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        return self._fed(await self._group.publish_all(drafts))

    def _fed(self, report: PublishReport) -> PublishReport:
        """What was published in another run of the server is no news for what the worker knows of this one."""
        return report if self._is_same_run else replace(report, grown=())

    # owning

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        run = self.db.pool.runs.now
        taken = await super().acquire(worker, most)
        if run == self.db.pool.runs.now:
            self._taken.update({one.pid: (worker, one.epoch, run) for one in taken})
        self._taken_in = self.db.pool.runs.now
        return taken

    @property
    def _is_same_run(self) -> bool:
        """Whether the server has not been restarted or replaced since partitions were acquired, as far as is known."""
        return self._taken_in in (None, self.db.pool.runs.now)

    def _of_this_run(self, found: T) -> T:
        """*found*, unless another server may have answered than the one whose lanes the worker knows: the worker would
        send what stands there now in the order of what stood there before. The next poll makes it join anew."""
        if not self._is_same_run:
            raise StoreUnavailable(
                "PostgreSQL: the server was restarted or replaced: nothing is sent until that is known"
            )
        return found

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        pool = self.db.pool
        return await self.db.look(lambda: lanes.load(worker, epochs, pooled=pool.is_pooled, run=pool.runs.now))

    async def owed(self, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
        return self._of_this_run(await self.db.look(lambda: lanes.owed(worker, epochs)))

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        try:
            rows = await self.db.once(lanes.poll_statement(pids, mark))
            return lanes.news_of(rows, pooled=self.db.pool.is_pooled, run=self.db.pool.runs.now)
        except RACES as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        return self._of_this_run(await self.db.look(lambda: lanes.reload(lane_ids)))

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        return self._of_this_run(await self.db.read(lambda: lanes.fetch(wants)))

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        """Made durable or known not to be: an unknown outcome is settled here, by doing the same once more."""
        try:
            return await self._commit(worker, epochs, writes)
        except Unknown:
            return await self._commit(worker, epochs, writes)

    async def _commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        run = self._run_of(worker, epochs, writes)
        if run is not None and all(map(acks.is_ack, writes)):
            try:
                rows = await self.db.once(acks.first_acks(worker, epochs, writes), run=run)
                return acks.report_of(rows, writes)
            except (asyncpg.UniqueViolationError, OtherRun, *RACES):
                pass  # made before, though it was not known, or lost a race: the longer way does not mind
        return await self.db.write(lambda: commit.commit(worker, epochs, writes))

    def _run_of(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> int | None:
        """The run of the server since which this worker has had the partitions of *writes*.

        All that it knows of them was read since: in the same run, what was sent cannot have been replaced by another.
        """
        runs = set()
        for pid in {acks.pid_of(write) for write in writes}:
            owner, epoch, run = self._taken.get(pid, (None, -1, -1))
            if owner != worker or epoch != epochs.get(pid):
                return None
            runs.add(run)
        return runs.pop() or None if len(runs) == 1 else None

    async def tidy(self) -> None:
        for _ in range(FOLDS_MAX):
            with self._vacuum.round() as start:
                folded, last = await self.db.write(lambda start=start: fold_acks.fold(start=start))  # type: ignore[misc]
                self._vacuum.note(folded, last)
            if folded < fold_acks.FOLD_MAX:
                break
        if self._vacuum.is_due():
            await self._vacuum.vacuum(self.db)
        await self.db.write(fold_acks.sum_up)
        await self._finish_deletions()

    async def scrub(self) -> None:
        """Old versions of rows go with the next vacuum, as the operator has set it."""

    # running flows

    async def _write(self, flow: Callable[[], Flow[T]]) -> T:
        return await self.db.write(flow)

    async def _read(self, flow: Callable[[], Flow[T]]) -> T:
        return await self.db.read(flow)

    async def _ask(self, flow: Callable[[], Flow[T]], *, s_max: float | None = SEARCH_S_MAX) -> T:
        return await (self.db.read(flow) if s_max is None else self.db.ask(flow, s_max=s_max))
