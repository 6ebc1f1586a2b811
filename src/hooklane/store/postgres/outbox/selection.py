"""Which deliveries does a plan mean? By filter or by id, each as it stands now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Member
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.cursors import number_of
from hooklane.store.postgres.outbox.event_reads import deliveries_at, like
from hooklane.store.reads import Page
from hooklane.store.recovery import Wanted

_LETTERS = """
SELECT e.id, e.type, d.endpoint_id, d.lane_id, coalesce(t.pid, l.pid, 0), coalesce(t.key, e.key), d.seq, d.died_at,
       d.id, d.reason, coalesce(t.tail - d.seq, 0)
FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n
LEFT JOIN hooklane.lane_tail t ON t.lane_id = d.lane_id LEFT JOIN hooklane.loose l ON l.n = -d.lane_id
WHERE d.tenant = :tenant AND (:endpoint::text IS NULL OR d.endpoint_id = :endpoint)
  AND (:key::text IS NULL OR e.key = :key OR t.key = :key) AND (:type::text IS NULL OR e.type LIKE :type)
  AND (:reason::text IS NULL OR d.reason LIKE :reason)
  AND (:after::bigint IS NULL OR d.died_at >= :after) AND (:before::bigint IS NULL OR d.died_at < :before)
  AND (d.died_at, d.id) > (:died_at::bigint, :letter::text)
"""
_EVENT = "e.n, e.id, e.type, e.key, e.created_at, e.stamps"
_EVENTS = f"""
SELECT {_EVENT} FROM hooklane.event e
WHERE e.tenant = :tenant AND e.n > :above AND (:key::text IS NULL OR e.key = :key)
  AND (:type::text IS NULL OR e.type LIKE :type)
  AND (:after::bigint IS NULL OR e.created_at >= :after) AND (:before::bigint IS NULL OR e.created_at < :before)
ORDER BY e.n LIMIT :limit::bigint
"""
_BY_ID = f"SELECT {_EVENT} FROM hooklane.event e WHERE e.tenant = :tenant AND e.id = ANY(:ids::text[])"
_BY_LETTER = f"""
SELECT d.id, d.endpoint_id, {_EVENT} FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n
WHERE d.tenant = :tenant AND d.id = ANY(:ids::text[])
"""
_DEATHS = "SELECT id, died_at, reason FROM hooklane.dead_letter WHERE id = ANY(:ids::text[])"
_PIDS = """
SELECT lane_id, pid FROM hooklane.lane_tail WHERE lane_id = ANY(:lanes::bigint[])
UNION ALL SELECT -n, pid FROM hooklane.loose WHERE n = ANY(:loose::bigint[])
"""


def select(tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Flow[Page[Member]]:
    if wanted.ids:
        return Page((yield from _by_ids(tenant, wanted)), None)
    params = {
        "tenant": tenant,
        "key": wanted.key,
        "type": None if wanted.type is None else like(wanted.type),
        "after": wanted.after,
        "before": wanted.before,
    }
    if wanted.state is DeliveryState.DELIVERED:
        return (yield from _delivered(wanted, params, cursor, limit))
    died_at, _, letter = (cursor or "0.").partition(".")
    # Written out, not bound: each state has an index of its own.
    is_open = "d.state = 'open'" if wanted.state is DeliveryState.DEAD else "d.state = 'skipped'"
    reason = None if wanted.reason is None else like(wanted.reason).replace("?", "_")
    rows = yield Statement(
        f"{_LETTERS} AND {is_open} ORDER BY d.died_at, d.id LIMIT :limit::bigint",
        {
            **params,
            "endpoint": wanted.endpoint_id,
            "reason": reason,
            "died_at": number_of(died_at),
            "letter": letter,
            "limit": limit + 1,
        },
    )
    last = rows[limit - 1] if len(rows) > limit else None
    return Page([_of_letter(row, wanted.state) for row in rows[:limit]], f"{last[7]}.{last[8]}" if last else None)


def _of_letter(row: Sequence[Any], state: DeliveryState) -> Member:
    event_id, type_, endpoint_id, lane_id, pid, key, seq, died_at, letter, reason, waiting = row
    return Member(
        event_id=event_id,
        type=type_,
        endpoint_id=endpoint_id,
        lane_id=lane_id,
        pid=pid,
        key=key,
        seq=seq if lane_id > 0 else None,
        place=seq if lane_id > 0 else -lane_id,
        state=state,
        version=str(died_at),
        dead_letter_id=letter,
        reason=reason,
        waiting=waiting,
    )


def _delivered(wanted: Wanted, params: dict[str, Any], cursor: str | None, limit: int) -> Flow[Page[Member]]:
    rows = yield Statement(_EVENTS, {**params, "above": number_of(cursor) or 0, "limit": limit})
    found = yield from _members(rows, wanted.endpoint_id)
    kept = [member for member in found if member.state is wanted.state]
    return Page(kept, str(rows[-1][0]) if len(rows) == limit else None)


def _by_ids(tenant: str, wanted: Wanted) -> Flow[list[Member]]:
    params = {"tenant": tenant, "ids": list(wanted.ids)}
    events = {row[1]: row for row in (yield Statement(_BY_ID, params))}
    letters = {row[0]: row for row in (yield Statement(_BY_LETTER, params))}
    found: list[Member] = []
    for one in wanted.ids:
        if one in letters:
            found += yield from _members([letters[one][2:]], letters[one][1])
        elif one in events:
            found += yield from _members([events[one]], wanted.endpoint_id)
    return found


def _members(rows: Sequence[Sequence[Any]], endpoint_id: str | None) -> Flow[list[Member]]:
    """The deliveries of events, each as it stands now."""
    about = {row[1]: row for row in rows}
    stamped = [
        (row[1], at, lane_id, seq)
        for row in rows
        for at, lane_id, seq in msgspec.json.decode(row[5])
        if endpoint_id in (None, at)
    ]
    found = yield from deliveries_at(stamped)
    letters = {
        (one.event_id, one.endpoint_id): dead_letter_id(one.event_id, about[one.event_id][4], one.endpoint_id)
        for one in found
        if one.state in (DeliveryState.DEAD, DeliveryState.SKIPPED)
    }
    deaths = {row[0]: row for row in (yield Statement(_DEATHS, {"ids": list(letters.values())}))}
    ids = [one.lane_id for one in found]
    asked = {"lanes": [one for one in ids if one > 0], "loose": [-one for one in ids if one < 0]}
    pids: dict[int, int] = {row[0]: row[1] for row in (yield Statement(_PIDS, asked))}
    members = []
    for one in found:
        _, event_id, type_, key, _, _ = about[one.event_id]
        letter = letters.get((event_id, one.endpoint_id))
        death = deaths.get(letter or "")
        members.append(
            Member(
                event_id=event_id,
                type=type_,
                endpoint_id=one.endpoint_id,
                lane_id=one.lane_id,
                pid=pids.get(one.lane_id, 0),
                key=one.key if one.lane_id > 0 else key,
                seq=one.seq,
                place=one.seq if one.seq is not None else -one.lane_id,
                state=one.state,
                version=str(death[1]) if death else "",
                dead_letter_id=letter,
                reason=death[2] if death else one.reason,
            )
        )
    return members
