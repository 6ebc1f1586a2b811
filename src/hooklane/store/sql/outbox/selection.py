"""Which deliveries does a plan mean? By filter or by id, each as it stands now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Member
from hooklane.store.budget import Budget
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import Wanted
from hooklane.store.sql.outbox.event_reads import deliveries_at, lanes_of_key
from hooklane.store.sql.outbox.letter_reads import letters, wanted_params
from hooklane.store.sql.outbox.steps import Flow, sql


def select(tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Flow[Page[Member]]:
    if wanted.ids:
        return Page((yield from _by_ids(tenant, wanted)), None)
    params = wanted_params(tenant, wanted)
    if wanted.state is DeliveryState.DELIVERED:
        return (yield from _delivered(wanted, params, cursor, limit))
    word = "open" if wanted.state is DeliveryState.DEAD else "skipped"
    rows, following = yield from letters(
        f"select_{word}_letters", params, word, cursor, limit, place=lambda row: (row[7], row[8])
    )
    return Page([_of_letter(row, wanted.state) for row in rows], following)


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
    """Up to *limit* events are looked at closely; the others do not fit by themselves."""
    budget, above = Budget(), number_of(cursor) or 0
    rows: list[Sequence[Any]] = []
    following: str | None = None
    window, select_events, within = "event_window_up", "select_events", {}
    if wanted.key is not None:
        # What an endpoint that is gone was sent without order is not found then, and could not be sent again either.
        lanes = yield from lanes_of_key(params["tenant"], wanted.key, wanted.endpoint_id)
        if lanes is not None:
            window, select_events, within = "event_window_up_in_lanes", "select_events_in_lanes", {"lanes": lanes}
    while True:
        ((looked, upto),) = yield sql(window, **within, above=above, window=budget.window)
        rows += yield sql(select_events, **params, **within, above=above, upto=upto or 0, limit=limit - len(rows))
        if len(rows) == limit:
            following = str(rows[-1][0])
            break
        if looked < budget.window:
            break
        above = upto
        budget.spend(looked)
        if budget.is_spent:
            following = str(above)
            break
    found = yield from _members(rows, wanted.endpoint_id)
    return Page([member for member in found if member.state is wanted.state], following)


def _by_ids(tenant: str, wanted: Wanted) -> Flow[list[Member]]:
    ids = list(wanted.ids)
    events = {row[1]: row for row in (yield sql("select_events_by_id", tenant=tenant, ids=ids))}
    named = {row[0]: row for row in (yield sql("select_events_by_letter", tenant=tenant, ids=ids))}
    found: list[Member] = []
    for one in ids:
        if one in named:
            if wanted.endpoint_id in (None, named[one][1]):
                found += yield from _members([named[one][2:]], named[one][1])
        elif one in events:
            found += yield from _members([events[one]], wanted.endpoint_id)
    return found


def _members(rows: Sequence[Sequence[Any]], endpoint_id: str | None) -> Flow[list[Member]]:
    """The deliveries of events, each as it stands now."""
    about = {row[1]: row for row in rows}
    found = yield from deliveries_at(
        [
            (row[1], at, lane_id, seq)
            for row in rows
            for at, lane_id, seq in msgspec.json.decode(row[5])
            if endpoint_id in (None, at)
        ]
    )
    named = {
        (one.event_id, one.endpoint_id): dead_letter_id(one.event_id, about[one.event_id][4], one.endpoint_id)
        for one in found
        if one.state in (DeliveryState.DEAD, DeliveryState.SKIPPED)
    }
    deaths = {row[0]: row for row in (yield sql("deaths", ids=list(named.values())))}
    lanes = [one.lane_id for one in found]
    asked = {"lanes": [one for one in lanes if one > 0], "loose": [-one for one in lanes if one < 0]}
    ends = {lane_id: (pid, tail) for lane_id, pid, tail in (yield sql("lanes_of_members", **asked))}
    members = []
    for one in found:
        _, event_id, type_, key, _, _ = about[one.event_id]
        letter = named.get((event_id, one.endpoint_id))
        death = deaths.get(letter or "")
        pid, tail = ends.get(one.lane_id, (0, 1))
        members.append(
            Member(
                event_id=event_id,
                type=type_,
                endpoint_id=one.endpoint_id,
                lane_id=one.lane_id,
                pid=pid,
                key=one.key if one.lane_id > 0 else key,
                seq=one.seq,
                place=one.seq if one.seq is not None else -one.lane_id,
                state=one.state,
                version=str(death[1]) if death else "",
                dead_letter_id=letter,
                reason=death[2] if death else one.reason,
                waiting=tail - (one.seq or 1) if one.state is DeliveryState.DEAD else 0,
            )
        )
    return members
