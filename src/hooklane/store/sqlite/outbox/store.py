"""The SQLite outbox: each verb is a function on a connection; this class says on which thread it runs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from hooklane.errors import StoreRefused
from hooklane.model.attempt import Write
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneRow
from hooklane.store.budget import SEARCH_S_MAX
from hooklane.store.endpoint_cache import EndpointCache
from hooklane.store.outbox import (
    CommitReport,
    Draft,
    Lease,
    Load,
    News,
    NotAll,
    PublishReport,
    StoreOptions,
    all_or_nothing,
)
from hooklane.store.sql.migration_files import migrations_of
from hooklane.store.sql.outbox.colocated_inbox import InboxFlows
from hooklane.store.sql.outbox.steps import Flow
from hooklane.store.sql.outbox.store import SqlOutbox
from hooklane.store.sqlite import database
from hooklane.store.sqlite.inbox.borrowed import VERBS
from hooklane.store.sqlite.inbox.verbs import SqliteVerbs
from hooklane.store.sqlite.outbox import lanes, outcomes, writer_protocol
from hooklane.store.sqlite.outbox.publish import publish
from hooklane.store.sqlite.outbox.statements import SQL, run, run_on_snapshot
from hooklane.store.sqlite.outbox.writer_works import drive_publish
from hooklane.store.sqlite.readers import Readers
from hooklane.store.sqlite.write_turns import WriteTurns
from hooklane.store.sqlite.writer import Writer
from hooklane.store.sqlite.writer_process import WriterProcess, exit_without_writer_process

T = TypeVar("T")
P = ParamSpec("P")
COMPONENT = "outbox"
MIGRATIONS = "hooklane.store.sqlite.outbox.migrations"


class SqliteOutbox(SqlOutbox):
    """One file, one writing thread, one that reads for deliveries, a few that read for people.

    Other processes may publish, only one may deliver.

    With the option `writer process`, a command, what is written most is written by a process of its own.
    """

    _inbox = InboxFlows(VERBS, SqliteVerbs())
    run = 0

    def __init__(self, path: str, options: StoreOptions) -> None:
        self.path = path
        self._options = options
        self._cache = EndpointCache()
        self._lock_fd: int | None = None
        self._reading: ThreadPoolExecutor | None = None
        self._writer_process: WriterProcess | None = None
        self._write_turns = WriteTurns()

    async def open(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._open)
        if command := self._options.extra.get("writer_process"):
            wait_ms = self._options.busy_wait_ms
            self._writer_process = await WriterProcess.start(command, self.path, wait_ms, exit_without_writer_process)

    def _open(self) -> None:
        conn = database.connect(self.path, busy_wait_ms=self._options.busy_wait_ms)
        try:
            database.check(conn, self.path)
            database.migrate(conn, COMPONENT, migrations_of(MIGRATIONS), self.path)
        except BaseException:
            conn.close()
            raise
        self._writer = Writer(conn, self.path, undone=self._cache.forget)
        self._reader = database.connect(self.path, busy_wait_ms=self._options.busy_wait_ms)
        self._reading = ThreadPoolExecutor(1, "hooklane reader")
        self.readers = Readers(self.path, self._options.busy_wait_ms)

    async def close(self) -> None:
        if self._reading is None:
            return
        if self._writer_process is not None:
            await self._writer_process.close()
        self._writer.end()
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        assert self._reading is not None
        self._writer.close()
        self._reading.shutdown()
        self._reader.close()
        self.readers.close()
        self._reading = None
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def _write(self, flow: Callable[[], Flow[T]]) -> T:
        return await self._write_on(lambda conn: run(conn, flow()))

    async def _write_often(self, flow: Callable[P, Flow[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """By the writer process, if there is one: a thread of ours shares the interpreter with the event loop, so it
        writes many times slower, and publishes and outcomes wait meanwhile."""
        if self._writer_process is None:
            return await super()._write_often(flow, *args, **kwargs)
        request = writer_protocol.flow_request(flow, args, kwargs)
        return cast(T, writer_protocol.flowed(await self._request(self._writer_process, writer_protocol.FLOW, request)))

    async def _read(self, flow: Callable[[], Flow[T]]) -> T:
        return await self._read_on(lambda conn: run_on_snapshot(conn, flow()))

    async def _ask(self, flow: Callable[[], Flow[T]], *, s_max: float | None = SEARCH_S_MAX) -> T:
        return await self.readers.ask(lambda conn: run_on_snapshot(conn, flow()), s_max=s_max)

    async def _read_on(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Read for deliveries: nothing that takes long, and nothing that people ask."""

        def ask() -> T:
            with database.errors_named(self.path):
                return question(self._reader)

        return await asyncio.get_running_loop().run_in_executor(self._reading, ask)

    async def _write_on(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer_process is None:
            return await self._writer.run(work)
        await self._write_turns.take(self)
        try:
            return await self._writer.run(work)
        finally:
            self._write_turns.give_back()

    async def _request(self, writer_process: WriterProcess, kind: int, text: bytes) -> bytes:
        await self._write_turns.take(writer_process)
        try:
            return await writer_process.request(kind, text)
        finally:
            self._write_turns.give_back()

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        if self._writer_process is None:
            return await self._write_on(lambda conn: self._publish(conn, drafts))
        return await self._publish_there(self._writer_process, writer_protocol.PUBLISH, drafts)

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        if self._writer_process is not None:
            return await self._publish_there(self._writer_process, writer_protocol.PUBLISH_ALL, drafts)
        try:
            return await self._write_on(lambda conn: all_or_nothing(self._publish(conn, drafts)))
        except NotAll as refused:
            return refused.report

    async def _publish_there(self, writer: WriterProcess, kind: int, drafts: Sequence[Draft]) -> PublishReport:
        answer = await self._request(writer, kind, writer_protocol.publish_request(drafts))
        return writer_protocol.published(drafts, answer)

    def _publish(self, conn: sqlite3.Connection, drafts: Sequence[Draft]) -> PublishReport:
        return drive_publish(conn, publish(drafts, self._options.placer, self._cache))

    # owning

    async def join(self, worker: str, lease_ms: int) -> Lease:
        if self._lock_fd is None:
            lock_fd = lock_delivery(self.path)
            try:
                # The lock proves that the process that delivered from this file before is gone: no lease to wait for.
                await self._write_on(lambda conn: conn.execute(SQL["expire_all"]))
            except BaseException:
                os.close(lock_fd)  # the next try begins with it as well
                raise
            self._lock_fd = lock_fd
        return await super().join(worker, lease_ms)

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        return await self._read_on(lambda conn: lanes.load(conn, worker, epochs))

    async def owed(self, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
        return await self._read_on(lambda conn: lanes.owed(conn, worker, epochs))

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        return await self._read_on(lambda conn: lanes.poll(conn, pids, mark))

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        return await self._read_on(lambda conn: lanes.reload(conn, lane_ids))

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        return await self._read_on(lambda conn: list(lanes.fetch(conn, wants)))

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        if self._writer_process is None:
            return await self._write_on(lambda conn: outcomes.commit(conn, worker, epochs, writes))
        request = writer_protocol.commit_request(worker, epochs, writes)
        return writer_protocol.committed(await self._request(self._writer_process, writer_protocol.COMMIT, request))

    async def tidy(self) -> None:
        """Nothing to fold: one process delivers, so it writes the heads themselves. Deletions are finished."""
        await self._finish_deletions()

    async def scrub(self) -> None:
        """Rewrite the file and empty its log. Other writers wait meanwhile."""
        await asyncio.to_thread(self._scrub)

    def _scrub(self) -> None:
        conn = database.connect(self.path, busy_wait_ms=self._options.busy_wait_ms)
        try:
            with database.errors_named(self.path):
                conn.execute(SQL["rewrite_file"])
                conn.execute(SQL["empty_log"])
        finally:
            conn.close()

    async def size_bytes(self) -> int:
        """The file, with the log that is not folded into it yet."""
        return await super().size_bytes() + await asyncio.to_thread(_size_of_log, self.path)


def _size_of_log(path: str) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else 0


def lock_delivery(path: str) -> int:
    """Keep a second deliver role out; the lock ends with the process, however that ends."""
    # Beside the file itself: a symbolic link to it must not lead to another lock.
    fd = os.open(f"{os.path.realpath(path)}-deliver.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise StoreRefused(
            f"another process already delivers from {path}: stop it, or use PostgreSQL for many"
        ) from None
    return fd
