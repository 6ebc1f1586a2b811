"""The story of an event: what happened to it at each endpoint, what people did about it, and what became of it at the
receiver where the receiver's inbox is in the same database. Oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.clock import Instant, rfc3339
from hooklane.model.event import DEFAULT_TENANT, Event
from hooklane.model.ids import dead_letter_id
from hooklane.model.inbox import Search
from hooklane.model.lane import DeliveryState
from hooklane.server.attempt_views import attempt_line
from hooklane.server.call import Call
from hooklane.server.inbox_rows import ask_inbox
from hooklane.server.inbox_views import ERROR_CHARS_MAX
from hooklane.server.problem import Problem
from hooklane.server.shapes import StoryLine
from hooklane.server.views import View
from hooklane.store.dashboard import PlaceHistory
from hooklane.store.reads import AttemptRow, Delivery
from hooklane.store.recovery import AuditFilter

ACTS_MAX = 200
OWN_SOURCE = "hooklane"
_BLANK: View = dict.fromkeys(name for name in StoryLine.__struct_fields__ if name not in ("at", "kind"))
_ACTS = {"dead_letter.replayed": "replayed", "dead_letter.noted": "noted", "dead_letter.assigned": "noted"}
"""Lines of the audit log that belong to a story; a skip is told by the lane itself."""


async def story_of(call: Call, event: Event, deliveries: Sequence[Delivery]) -> list[View]:
    store = call.services.store
    names = {one.id: one.name for one in await store.endpoints(call.tenant)}
    history = await store.history([(one.lane_id, one.seq) for one in deliveries if one.seq is not None])
    attempts = await store.attempts(call.tenant, event.id)
    lines: list[tuple[Instant, View]] = [(event.created_at, {"kind": "published"})]
    for delivery in deliveries:
        tried = [row for row in attempts if row.endpoint_id == delivery.endpoint_id]
        place: View = {
            "endpoint": delivery.endpoint_id,
            "endpoint_name": names.get(delivery.endpoint_id, ""),
            "seq": delivery.seq,
        }
        known = history.get(delivery.lane_id, PlaceHistory())
        for at, line in [*await _waited(call, event, delivery, known), *_tries(tried), *_passed(known, delivery)]:
            lines.append((at, {**place, **line}))
    letters = {
        dead_letter_id(event.id, event.created_at, one.endpoint_id): one.endpoint_id
        for one in deliveries
        if one.state in (DeliveryState.DEAD, DeliveryState.SKIPPED) or len(attempts) > 1
    }
    lines += await _acts(call, event, letters, names)
    lines += await _received(call, event)
    in_order = sorted(lines, key=lambda line: line[0])  # what is told of one moment keeps its order
    return [{"at": rfc3339(at), **_BLANK, **line} for at, line in in_order]


async def _waited(call: Call, event: Event, one: Delivery, known: PlaceHistory) -> list[tuple[Instant, View]]:
    """How long the event stood behind another one of its lane, and behind which; empty where it did not."""
    if one.seq is None or one.key is None:
        return []
    if one.state is DeliveryState.QUEUED:
        lane = await call.services.store.lane(call.tenant, one.endpoint_id, one.key)
        if lane is not None and lane.head < one.seq:
            ms = max(0, call.services.now() - event.created_at)
            return [(event.created_at, {"kind": "waited", "for_seq": lane.head, "ms": ms})]
        return []
    if known.free_at is None or known.free_at <= event.created_at:
        return []
    return [(event.created_at, {"kind": "waited", "for_seq": one.seq - 1, "ms": known.free_at - event.created_at})]


def _tries(tried: Sequence[AttemptRow]) -> list[tuple[Instant, View]]:
    lines: list[tuple[Instant, View]] = []
    for row in tried:
        shown = attempt_line(row, "", None, None)
        line: dict[str, Any] = {
            "kind": "delivered" if row.outcome == "delivered" else "try",
            "ms": shown["took_ms"],
            **{name: shown[name] for name in ("status", "failure", "attempt", "next_at", "said")},
        }
        lines.append((row.started_at, line))
        if row.outcome == "dead":
            at = Instant(row.started_at + int(row.took_ms))
            lines.append((at, {"kind": "dead", "attempt": row.attempt, "status": row.status, "failure": row.failure}))
    return lines


def _passed(known: PlaceHistory, one: Delivery) -> list[tuple[Instant, View]]:
    if known.passing is None or one.seq is None:
        return []
    passing = known.passing
    return [(passing.at, {"kind": passing.kind, "actor": passing.actor, "note": passing.note})]


async def _received(call: Call, event: Event) -> list[tuple[Instant, View]]:
    """What each handler of our own receiver made of it."""
    wanted = Search(source=OWN_SOURCE, account=DEFAULT_TENANT, event_id=event.id, limit=1)
    try:
        rows = await ask_inbox(call, lambda verbs: verbs.rows(wanted)) or []
    except Problem:  # an inbox that this server may not read takes nothing from the sender's own story
        return []
    return [
        (
            one.settled_at or row.received_at,
            {
                "kind": "receiver",
                "said": str(one.status),
                "actor": one.handler,
                "attempt": one.attempts,
                "note": (one.error or "").partition("\n")[0][:ERROR_CHARS_MAX] or None,
            },
        )
        for row in rows
        for one in row.handlings
    ]


async def _acts(call: Call, event: Event, letters: dict[str, str], names: dict[str, str]) -> list[tuple[Instant, View]]:
    """What people did with its dead letters."""
    if not letters:
        return []
    wanted = AuditFilter(subjects=list(letters), after=event.created_at)
    page = await call.services.store.audit(call.tenant, wanted, None, ACTS_MAX)
    lines: list[tuple[Instant, View]] = []
    for one in page.items:
        act = one.act
        if act.action in _ACTS:
            endpoint_id = letters[act.subject]
            who = {"endpoint": endpoint_id, "endpoint_name": names.get(endpoint_id, "")}
            lines.append((act.at, {"kind": _ACTS[act.action], **who, "actor": act.actor, "note": act.note or None}))
    return lines
