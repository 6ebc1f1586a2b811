"""What does an owner read? The lanes with work, what is new since a mark, and events that are due."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.model.redelivery import REDELIVERIES, is_redelivery, redelivery_lane
from hooklane.model.session import Session
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.codec import decode_endpoint
from hooklane.store.outbox import Load, News
from hooklane.store.postgres.outbox.sessions import session_of, session_params
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.sql.outbox import redeliveries
from hooklane.store.sql.outbox.health import health_of, read_health
from hooklane.store.sql.outbox.steps import Flow


@dataclass(frozen=True, slots=True)
class Mark:
    """What a reader has seen: everything that its snapshot shows, and endpoints up to a revision."""

    xmax: str
    xip: tuple[str, ...]
    rev: int
    session: Session
    """On which it was read."""
    told: tuple[str, ...] = ()
    """Transactions of our own process that its engine was told of straight after their commit."""

    @classmethod
    def of(cls, snapshot: str, rev: int, session: Session) -> Mark:
        """From PostgreSQL's text `xmin:xmax:xip,xip,…`."""
        _, xmax, xip = snapshot.split(":")
        return cls(xmax, tuple(xip.split(",")) if xip else (), rev, session)


def load(worker: str, epochs: Mapping[int, int], *, pooled: bool = False, run: int = 0) -> Flow[Load]:
    """Run it on one snapshot: the mark must say exactly what was seen. What is not ours any more is left out."""
    ((snapshot, now, rev, description),) = yield Statement(SQL["snapshot"])
    lanes = yield from owed(worker, epochs)
    docs = yield Statement(SQL["all_endpoints"])
    turns = yield from read_health(None)
    session = session_of(description, pooled=pooled, run=run)
    endpoints = [decode_endpoint(doc) for (doc,) in docs]
    return Load(lanes, endpoints, Mark.of(snapshot, rev, session), Instant(now), list(turns.values()), session)


def owed(worker: str, epochs: Mapping[int, int]) -> Flow[dict[int, list[LaneRow]]]:
    """The lanes with work by partition; run it on one snapshot."""
    held = yield Statement(SQL["held_partitions"], {"worker": worker})
    pids = [pid for pid, epoch in held if epochs.get(pid) == epoch]
    lanes: dict[int, list[LaneRow]] = {pid: [] for pid in pids}
    for name in ("load_lanes", "load_loose", "load_redeliveries"):
        for row in (yield Statement(SQL[name], {"pids": pids})):
            lanes[row[1]].append(lane_row(row))
    return lanes


def poll_statement(pids: Sequence[int], mark: Mark) -> Statement:
    params = {"pids": list(pids), "xmax": mark.xmax, "xip": list(mark.xip), "rev": mark.rev}
    return Statement(SQL["poll"], {**params, "told": f"{{{','.join(mark.told)}}}", **session_params(mark.session)})


def news_of(rows: Rows, *, pooled: bool, run: int = 0) -> News:
    by_kind: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        by_kind[row[0]].append(row)
    ((_, now, _, snapshot, description, rev, _),) = by_kind["mark"]
    session = session_of(description, pooled=pooled, run=run)
    docs = sorted(by_kind["endpoint"], key=lambda row: int(row[5]))
    return News(
        [Grown(row[1], row[2], row[3], row[4], row[5]) for row in by_kind["grown"]],
        [row[1] for row in by_kind["recovered"]],
        [decode_endpoint(row[6]) for row in docs],
        Mark.of(snapshot, rev, session),
        Instant(now),
        [health_of((row[3], row[5], row[4], row[1], row[2], row[6].decode())) for row in by_kind["health"]],
        session,
        mark_lives=bool(by_kind["lives"]),
    )


def reload(lane_ids: Sequence[LaneId]) -> Flow[list[LaneRow]]:
    rows: list[LaneRow] = []
    if lanes := [lane_id for lane_id in lane_ids if lane_id > 0]:
        rows += [lane_row(row) for row in (yield Statement(SQL["reload_lanes"], {"lanes": lanes}))]
    if again := [redelivery_lane(lane_id) for lane_id in lane_ids if is_redelivery(lane_id)]:
        rows += [lane_row(row) for row in (yield Statement(SQL["reload_redeliveries"], {"ns": again}))]
    if loose := [-lane_id for lane_id in lane_ids if REDELIVERIES <= lane_id < 0]:
        rows += [lane_row(row) for row in (yield Statement(SQL["reload_loose"], {"loose": loose}))]
    return rows


def lane_row(row: Sequence[Any]) -> LaneRow:
    lane_id, pid, endpoint_id, key, head, tail, state, *rest = row
    state = LaneState.IDLE if head > tail else LaneState(state)
    return LaneRow(lane_id, pid, endpoint_id, key, head, tail, state, *rest)


def fetch(wants: Sequence[tuple[LaneId, int, int]]) -> Flow[list[tuple[LaneId, int, Event]]]:
    found: list[tuple[LaneId, int, Event]] = []
    if lanes := [want for want in wants if want[0] > 0]:
        ids, seqs, many = (list(column) for column in zip(*lanes, strict=True))
        rows = yield Statement(SQL["fetch_lanes"], {"lanes": ids, "seqs": seqs, "many": many})
        found += [(row[0], row[1], Event(*row[2:])) for row in rows]
    if again := [want for want in wants if is_redelivery(want[0])]:
        found += yield from redeliveries.fetch(again)
    if loose := [-want[0] for want in wants if REDELIVERIES <= want[0] < 0]:
        rows = yield Statement(SQL["fetch_loose"], {"loose": loose})
        found += [(row[0], row[1], Event(*row[2:])) for row in rows]
    found.sort(key=lambda item: item[:2])
    return found
