"""How do the lanes stand, and what is dead? Those that need attention first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.lane import LaneId, LaneState
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.cursors import number_of, rank_and_lane_of
from hooklane.store.postgres.outbox import audit
from hooklane.store.postgres.outbox.event_reads import deliveries_at
from hooklane.store.postgres.outbox.lanes import LANE_COLUMNS, LANES
from hooklane.store.reads import DeadLetter, Delivery, LaneView, Page
from hooklane.store.shown import dead_letter_of

RANKS = {
    LaneState.BLOCKED: 0,
    LaneState.RETRYING: 1,
    LaneState.PAUSED: 2,
    LaneState.ACTIVE: 3,
    LaneState.IDLE: 4,
}
STATES = {rank: state for state, rank in RANKS.items()}

_ROWS = f"""
SELECT {LANE_COLUMNS}, CASE WHEN a.head > coalesce(l.head, 1) THEN NULL ELSE l.reason END AS reason,
    coalesce(CASE WHEN a.head > coalesce(l.head, 1) THEN a.at END, l.since) AS since,
    coalesce(convert_from(p.doc, 'UTF8')::json ->> 'state' IN ('paused', 'disabled'), false) AS paused
{LANES.format(acks="")} LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
"""
_VIEWS = """
SELECT v.lane_id, v.endpoint_id, v.key, v.head, v.tail, v.state, v.attempts, v.next_at, v.since, v.reason, d.id,
    e.id, e.type, v.rank
FROM (SELECT r.*, CASE WHEN head > tail THEN 4 WHEN state = 'blocked' THEN 0 WHEN paused THEN 2
      WHEN state = 'retrying' THEN 1 ELSE 3 END AS rank FROM ({rows}) r) v
LEFT JOIN hooklane.lane_event le ON le.lane_id = v.lane_id AND le.seq = v.head
LEFT JOIN hooklane.event e ON e.n = le.event_n
LEFT JOIN hooklane.dead_letter d ON d.lane_id = v.lane_id AND d.seq = v.head AND d.state = 'open'
"""
_ONE = _VIEWS.format(rows=f"{_ROWS} WHERE t.tenant = :tenant AND t.endpoint_id = :endpoint AND t.key = :key")
_MATCHING = f"""{_ROWS} WHERE t.tenant = :tenant AND (:endpoint::text IS NULL OR t.endpoint_id = :endpoint)
    AND (:text::text IS NULL OR strpos(lower(t.key), lower(:text)) > 0)"""
_PAGE = f"""{_VIEWS.format(rows=_MATCHING)}
WHERE (:ranks::integer[] IS NULL OR v.rank = ANY(:ranks::integer[]))
  AND (v.rank > :rank::integer OR (v.rank = :rank::integer AND v.lane_id < :above::bigint))
ORDER BY v.rank, v.lane_id DESC LIMIT :limit::bigint
"""
_FROM_SEQ = """
SELECT e.id, t.endpoint_id, l.lane_id, l.seq FROM hooklane.lane_event l JOIN hooklane.event e ON e.n = l.event_n
JOIN hooklane.lane_tail t USING (lane_id) WHERE l.lane_id = :lane_id AND l.seq >= :seq
ORDER BY l.seq LIMIT :limit::bigint
"""
_LETTERS = """
SELECT d.id, e.id, e.type, d.endpoint_id, d.lane_id, t.key, d.seq, d.attempts, d.reason, d.died_at,
       coalesce(t.tail - d.seq, 0), d.note
FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n LEFT JOIN hooklane.lane_tail t USING (lane_id)
WHERE d.tenant = :tenant AND d.state = 'open'
"""
_LETTER_PAGE = f"""{_LETTERS} AND (:endpoint::text IS NULL OR d.endpoint_id = :endpoint)
  AND (d.died_at, d.id) > (:died_at::bigint, :letter::text) ORDER BY d.died_at, d.id LIMIT :limit::bigint
"""
_NOTE = """
UPDATE hooklane.dead_letter SET note = :note WHERE tenant = :tenant AND id = :id AND state = 'open' RETURNING 1
"""


def lane(tenant: str, endpoint_id: str, key: str) -> Flow[LaneView | None]:
    rows = yield Statement(_ONE, {"tenant": tenant, "endpoint": endpoint_id, "key": key})
    return _view(rows[0]) if rows else None


def lanes(
    tenant: str,
    states: Sequence[LaneState] | None,
    endpoint_id: str | None,
    text: str | None,
    cursor: str | None,
    limit: int,
) -> Flow[Page[LaneView]]:
    """Those that need attention first (blocked, retrying, active), then the idle; the newest lane first in each."""
    rank, above = rank_and_lane_of(cursor)
    wanted = {
        "tenant": tenant,
        "endpoint": endpoint_id,
        "text": text,
        "ranks": None if states is None else [RANKS[state] for state in states if state in RANKS],
        "rank": rank,
        "above": above,
        "limit": limit + 1,
    }
    rows = yield Statement(_PAGE, wanted)
    more = f"{rows[limit - 1][-1]}.{rows[limit - 1][0]}" if len(rows) > limit else None
    return Page([_view(row) for row in rows[:limit]], more)


def _view(row: Sequence[Any]) -> LaneView:
    lane_id, endpoint_id, key, head, tail, _, attempts, next_at, since, reason, letter, event_id, type_, rank = row
    return LaneView(
        lane_id=lane_id,
        endpoint_id=endpoint_id,
        key=key,
        state=STATES[rank],
        head=head,
        tail=tail,
        attempts=attempts,
        next_at=next_at or None,
        since=since or None,
        reason=reason,
        dead_letter_id=letter,
        head_event_id=event_id,
        head_type=type_,
    )


def lane_deliveries(lane_id: LaneId, from_seq: int, limit: int) -> Flow[list[Delivery]]:
    rows = yield Statement(_FROM_SEQ, {"lane_id": lane_id, "seq": from_seq, "limit": limit})
    return (yield from deliveries_at([(row[0], row[1], row[2], row[3]) for row in rows]))


def dead_letters(tenant: str, endpoint_id: str | None, cursor: str | None, limit: int) -> Flow[Page[DeadLetter]]:
    """The oldest first: it has waited longest."""
    died_at, _, letter = (cursor or "0.").partition(".")
    wanted = {
        "tenant": tenant,
        "endpoint": endpoint_id,
        "died_at": number_of(died_at),
        "letter": letter,
        "limit": limit + 1,
    }
    rows = yield Statement(_LETTER_PAGE, wanted)
    found = [dead_letter_of(row) for row in rows[:limit]]
    return Page(found, f"{found[-1].died_at}.{found[-1].id}" if len(rows) > limit else None)


def dead_letter(tenant: str, letter: str) -> Flow[DeadLetter | None]:
    rows = yield Statement(f"{_LETTERS} AND d.id = :id", {"tenant": tenant, "id": letter})
    return dead_letter_of(rows[0]) if rows else None


def set_note(tenant: str, letter: str, note: str, act: Act | None = None) -> Flow[bool]:
    done = bool((yield Statement(_NOTE, {"tenant": tenant, "id": letter, "note": note})))
    if done and act is not None:
        yield from audit.append(act)
    return done
