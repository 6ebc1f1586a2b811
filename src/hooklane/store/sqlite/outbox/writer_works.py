"""What a writer process of the SQLite outbox does, and nothing else of the store: it is loaded at every start."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.endpoint_cache import EndpointCache
from hooklane.store.outbox import Draft, Placer
from hooklane.store.sqlite.outbox import writer_protocol
from hooklane.store.sqlite.outbox.publish import KnownLanes, Placed, place_all
from hooklane.store.sqlite.rows import Many, PublishFlow
from hooklane.store.sqlite.writer_process import Work

T = TypeVar("T")


def works_for(placer: Placer) -> tuple[Mapping[int, Work], Callable[[], None]]:
    """What a writer process of this store is asked to do, and what it must be told when work was undone."""
    cache, known = EndpointCache(), KnownLanes()

    def place(conn: sqlite3.Connection, drafts: Sequence[Draft]) -> Placed:
        return drive_publish(conn, place_all(drafts, placer, cache, known))

    def undone() -> None:
        cache.forget()
        known.forget()

    def flow(conn: sqlite3.Connection, request: bytes) -> bytes:
        known.forget()  # it may remove some
        return writer_protocol.do_flow(conn, request)

    return {
        writer_protocol.PUBLISH: writer_protocol.do_publish(place),
        writer_protocol.PUBLISH_ALL: writer_protocol.do_publish_all(place, undone),
        writer_protocol.COMMIT: writer_protocol.do_commit,
        writer_protocol.FLOW: flow,
    }, undone


def drive_publish(conn: sqlite3.Connection, flow: PublishFlow[T]) -> T:
    """Run a publish on our own connection; many rows go in by one statement."""
    try:
        wanted = next(flow)
        while True:
            rows: Rows = ()
            match wanted:
                case Statement(sql=sql, params=params):
                    rows = conn.execute(sql, params).fetchall()
                case Many(insert=insert, rows=many):
                    rows = insert.run(conn, many)
            wanted = flow.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
