"""What does an owner read? The lanes with work, what is new since a mark, and events that are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.model.redelivery import REDELIVERIES, is_redelivery, redelivery_lane
from hooklane.store.caller.flow import Flow, Rows, Statement
from hooklane.store.codec import decode_endpoint
from hooklane.store.outbox import Load, News
from hooklane.store.postgres.outbox import redeliveries
from hooklane.store.postgres.outbox.health import health_of, read_health

# A head comes from the acks that were not folded yet or from the lane, whichever is further on; what the lane says of
# an older head (attempts, time, state) does not hold for a newer one.
LANE_COLUMNS = """
    t.lane_id, t.pid, t.endpoint_id, t.key, greatest(l.head, a.head, 1) AS head, t.tail,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 'active' ELSE coalesce(l.state, 'active') END AS state,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.attempts, 0) END AS attempts,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.next_at, 0) END AS next_at,
    coalesce(l.rev, 0) AS rev, greatest(l.acked, a.head - 1, 0) AS acked
"""
_STARTS = "CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.starts, 0) END AS starts"
LANES = """
FROM hooklane.lane_tail t LEFT JOIN hooklane.lane l USING (lane_id)
LEFT JOIN (SELECT lane_id, max(head) AS head, max(at) AS at FROM hooklane.ack {acks} GROUP BY lane_id) a USING (lane_id)
"""
_LOOSE = """
SELECT -n, pid, endpoint_id, NULL::text, 1::bigint, 1::bigint,
    CASE state WHEN 'retrying' THEN 'retrying' ELSE 'active' END, attempts, next_at, rev, 0::bigint,
    starts
FROM hooklane.loose
"""

# --- load ---

_SNAPSHOT = Statement(
    "SELECT pg_current_snapshot()::text, hooklane.now_ms(),"
    " (SELECT value FROM hooklane.counter WHERE name = 'endpoint')"
)
_ENDPOINTS = Statement("SELECT doc FROM hooklane.endpoint ORDER BY id")
_HELD = "SELECT pid, epoch FROM hooklane.part WHERE owner = :worker"
_LOAD_LANES = f"""
SELECT {LANE_COLUMNS}, {_STARTS} {LANES.format(acks="WHERE pid = ANY(:pids::integer[])")}
WHERE t.pid = ANY(:pids::integer[]) AND t.tail >= greatest(l.head, a.head, 1)
"""
_LOAD_LOOSE = f"{_LOOSE} WHERE pid = ANY(:pids::integer[]) AND state IN ('queued', 'retrying')"
_LOAD_REDELIVERIES = f"{redeliveries.ROWS} AND pid = ANY(:pids::integer[])"

# --- poll ---

# One statement, hence one snapshot, whose own description comes along: what it did not see is what the next asks for.
# A position (a sequence, a time) would miss a transaction that commits late.
_POLL = f"""
WITH fresh AS (
    SELECT lane_id, seq FROM hooklane.lane_event
    WHERE xid >= :xmax::text::xid8 AND xid <> ALL(:told::text::xid8[]) AND pid = ANY(:pids::integer[])
    UNION ALL
    SELECT lane_id, seq FROM hooklane.lane_event
    WHERE xid = ANY(:xip::text[]::xid8[]) AND pid = ANY(:pids::integer[])
)
SELECT 'mark' AS kind, hooklane.now_ms() AS lane_id, 0 AS pid, pg_current_snapshot()::text AS endpoint_id,
    NULL::text AS key, (SELECT value FROM hooklane.counter WHERE name = 'endpoint') AS seq, NULL::bytea AS doc
UNION ALL
SELECT 'grown', t.lane_id, t.pid, t.endpoint_id, t.key, f.seq, NULL
FROM (SELECT lane_id, max(seq) AS seq FROM fresh GROUP BY lane_id) f JOIN hooklane.lane_tail t USING (lane_id)
UNION ALL
SELECT 'grown', -n, pid, endpoint_id, NULL, 1, NULL FROM hooklane.loose
WHERE (xid >= :xmax::text::xid8 OR xid = ANY(:xip::text[]::xid8[])) AND pid = ANY(:pids::integer[])
  AND state IN ('queued', 'retrying')
UNION ALL
SELECT 'recovered', lane_id, pid, NULL, NULL, 0, NULL FROM hooklane.recovered
WHERE (xid >= :xmax::text::xid8 OR xid = ANY(:xip::text[]::xid8[])) AND pid = ANY(:pids::integer[])
  AND lane_id > {REDELIVERIES}
UNION ALL
SELECT 'grown', {REDELIVERIES} - d.n, d.pid, d.endpoint_id, NULL, d.tail, NULL FROM hooklane.redelivery d
WHERE d.n IN (
    SELECT {REDELIVERIES} - lane_id FROM hooklane.recovered
    WHERE (xid >= :xmax::text::xid8 OR xid = ANY(:xip::text[]::xid8[])) AND pid = ANY(:pids::integer[])
      AND lane_id < {REDELIVERIES}
) AND {redeliveries.OPEN}
UNION ALL
SELECT 'endpoint', 0, 0, NULL, NULL, rev, doc FROM hooklane.endpoint WHERE rev > :rev::bigint
UNION ALL
SELECT 'health', until, probes, endpoint_id, state, turn, convert_to(by, 'UTF8') FROM hooklane.health
WHERE xid >= :xmax::text::xid8 OR xid = ANY(:xip::text[]::xid8[])
"""

# --- reload and fetch ---

_RELOAD = f"""
SELECT {LANE_COLUMNS}, {_STARTS} {LANES.format(acks="WHERE lane_id = ANY(:lanes::bigint[])")}
WHERE t.lane_id = ANY(:lanes::bigint[])
"""
_RELOAD_LOOSE = f"{_LOOSE} WHERE n = ANY(:loose::bigint[]) AND state IN ('queued', 'retrying')"
_RELOAD_REDELIVERIES = f"{redeliveries.ROWS} AND n = ANY(:ns::bigint[])"
_EVENT = "e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of"
# Lane by lane through the index: never a scan of the log, which a parked endpoint makes long.
_FETCH = f"""
SELECT w.lane_id, f.seq, {_EVENT}
FROM unnest(:lanes::bigint[], :seqs::bigint[], :many::bigint[]) AS w (lane_id, seq, many)
CROSS JOIN LATERAL (
    SELECT le.seq, le.event_n FROM hooklane.lane_event le
    WHERE le.lane_id = w.lane_id AND le.seq >= w.seq ORDER BY le.seq LIMIT w.many
) f JOIN hooklane.event e ON e.n = f.event_n
"""
_FETCH_LOOSE = f"""
SELECT -l.n, 1::bigint, {_EVENT} FROM hooklane.loose l JOIN hooklane.event e ON e.n = l.event_n
WHERE l.n = ANY(:loose::bigint[])
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a reader has seen: everything that its snapshot shows, and endpoints up to a revision."""

    xmax: str
    xip: tuple[str, ...]
    rev: int
    told: tuple[str, ...] = ()
    """Transactions of our own process that its engine was told of straight after their commit."""

    @classmethod
    def of(cls, snapshot: str, rev: int) -> Mark:
        """From PostgreSQL's text `xmin:xmax:xip,xip,…`."""
        _, xmax, xip = snapshot.split(":")
        return cls(xmax, tuple(xip.split(",")) if xip else (), rev)


def load(worker: str, epochs: Mapping[int, int]) -> Flow[Load]:
    """Run it on one snapshot: the mark must say exactly what was seen. What is not ours any more is left out."""
    ((snapshot, now, rev),) = yield _SNAPSHOT
    held = yield Statement(_HELD, {"worker": worker})
    pids = [pid for pid, epoch in held if epochs.get(pid) == epoch]
    lanes: dict[int, list[LaneRow]] = {pid: [] for pid in pids}
    for query in (_LOAD_LANES, _LOAD_LOOSE, _LOAD_REDELIVERIES):
        for row in (yield Statement(query, {"pids": pids})):
            lanes[row[1]].append(lane_row(row))
    docs = yield _ENDPOINTS
    turns = yield from read_health(None)
    endpoints = [decode_endpoint(doc) for (doc,) in docs]
    return Load(lanes, endpoints, Mark.of(snapshot, rev), Instant(now), list(turns.values()))


def poll_statement(pids: Sequence[int], mark: Mark) -> Statement:
    params = {"pids": list(pids), "xmax": mark.xmax, "xip": list(mark.xip), "rev": mark.rev}
    return Statement(_POLL, {**params, "told": f"{{{','.join(mark.told)}}}"})


def news_of(rows: Rows) -> News:
    by_kind: dict[str, list[Sequence[Any]]] = {"mark": [], "grown": [], "recovered": [], "endpoint": [], "health": []}
    for row in rows:
        by_kind[row[0]].append(row)
    ((_, now, _, snapshot, _, rev, _),) = by_kind["mark"]
    docs = sorted(by_kind["endpoint"], key=lambda row: int(row[5]))
    return News(
        [Grown(row[1], row[2], row[3], row[4], row[5]) for row in by_kind["grown"]],
        [row[1] for row in by_kind["recovered"]],
        [decode_endpoint(row[6]) for row in docs],
        Mark.of(snapshot, rev),
        Instant(now),
        [health_of((row[3], row[5], row[4], row[1], row[2], row[6].decode())) for row in by_kind["health"]],
    )


def reload(lane_ids: Sequence[LaneId]) -> Flow[list[LaneRow]]:
    rows: list[LaneRow] = []
    if lanes := [lane_id for lane_id in lane_ids if lane_id > 0]:
        rows += [lane_row(row) for row in (yield Statement(_RELOAD, {"lanes": lanes}))]
    if again := [redelivery_lane(lane_id) for lane_id in lane_ids if is_redelivery(lane_id)]:
        rows += [lane_row(row) for row in (yield Statement(_RELOAD_REDELIVERIES, {"ns": again}))]
    if loose := [-lane_id for lane_id in lane_ids if REDELIVERIES <= lane_id < 0]:
        rows += [lane_row(row) for row in (yield Statement(_RELOAD_LOOSE, {"loose": loose}))]
    return rows


def lane_row(row: Sequence[Any]) -> LaneRow:
    lane_id, pid, endpoint_id, key, head, tail, state, *rest = row
    state = LaneState.IDLE if head > tail else LaneState(state)
    return LaneRow(lane_id, pid, endpoint_id, key, head, tail, state, *rest)


def fetch(wants: Sequence[tuple[LaneId, int, int]]) -> Flow[list[tuple[LaneId, int, Event]]]:
    found: list[tuple[LaneId, int, Event]] = []
    if lanes := [want for want in wants if want[0] > 0]:
        ids, seqs, many = (list(column) for column in zip(*lanes, strict=True))
        rows = yield Statement(_FETCH, {"lanes": ids, "seqs": seqs, "many": many})
        found += [(row[0], row[1], Event(*row[2:])) for row in rows]
    if again := [want for want in wants if is_redelivery(want[0])]:
        found += yield from redeliveries.fetch(again)
    if loose := [-want[0] for want in wants if REDELIVERIES <= want[0] < 0]:
        rows = yield Statement(_FETCH_LOOSE, {"loose": loose})
        found += [(row[0], row[1], Event(*row[2:])) for row in rows]
    found.sort(key=lambda item: item[:2])
    return found
