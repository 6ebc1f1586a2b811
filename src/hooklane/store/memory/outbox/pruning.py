"""What may go? Events that are not owed any more, and the traces of what was settled long ago."""

from __future__ import annotations

from hooklane.model.audit import Link
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Progress
from hooklane.store.memory.outbox.reading import state_of
from hooklane.store.memory.outbox.tables import PRUNED, Tables
from hooklane.store.recovery import Cutoffs

_OVER = (DeliveryState.DELIVERED, DeliveryState.SKIPPED, DeliveryState.CANCELLED)

Key = tuple[str, str]
"""An event by tenant and id."""


def prune(tables: Tables, cutoffs: Cutoffs) -> dict[str, int]:
    """All of it in one step: memory keeps no caller waiting."""
    busy = _on_their_way(tables)
    old = [
        key
        for key, event in tables.events.items()
        if event.created_at < cutoffs.events and key not in busy and _is_over(tables, key, cutoffs.events)
    ]
    for key in old:
        _remove(tables, key)
    return {
        "events": len(old),
        "attempts": _prune_attempts(tables, cutoffs),
        "idempotency": _prune_names(tables, cutoffs),
        "audit": _prune_audit(tables, cutoffs),
        "jobs": _prune_jobs(tables, cutoffs),
    }


def _on_their_way(tables: Tables) -> set[Key]:
    return {
        (tables.jobs[plan_id].tenant, one.member.event_id)
        for plan_id, members in tables.members.items()
        for one in members.values()
        if one.progress is Progress.RELEASED and plan_id in tables.jobs
    }


def _is_over(tables: Tables, key: Key, before: int) -> bool:
    for lane_id, seq in tables.places.get(key, ()):
        lane = tables.lanes[lane_id]
        if state_of(lane, tables.row_of(lane), seq) not in _OVER:
            return False
    return all(one.send.at < before for one in tables.attempts.get(key, ()))


def _remove(tables: Tables, key: Key) -> None:
    del tables.events[key]
    for lane_id, seq in tables.places.pop(key, ()):
        tables.lanes[lane_id].events[seq - 1] = PRUNED
        for letter in [one.id for one in tables.dead_letters.values() if (one.lane_id, one.seq) == (lane_id, seq)]:
            del tables.dead_letters[letter]
    tables.attempts.pop(key, None)


def _prune_attempts(tables: Tables, cutoffs: Cutoffs) -> int:
    removed = 0
    for key, found in list(tables.attempts.items()):
        if _is_over(tables, key, cutoffs.attempts):
            removed += len(found)
            del tables.attempts[key]
    return removed


def _prune_names(tables: Tables, cutoffs: Cutoffs) -> int:
    """A name lives at least as long as its event: else the same id could be published twice."""
    old = [
        name
        for name, (_, published) in tables.names.items()
        if published.created_at < cutoffs.idempotency and (name[0], published.event_id) not in tables.events
    ]
    for name in old:
        del tables.names[name]
    return len(old)


def _prune_audit(tables: Tables, cutoffs: Cutoffs) -> int:
    removed = 0
    while tables.audit and tables.audit[0].act.at < cutoffs.audit:
        line = tables.audit.pop(0)
        tables.audit_anchor = Link(line.n, line.seal)
        removed += 1
    return removed


def _prune_jobs(tables: Tables, cutoffs: Cutoffs) -> int:
    old = [
        job.id
        for job in tables.jobs.values()
        if job.state is not JobState.RUNNING
        and job.created_at < cutoffs.jobs
        and (job.ended_at or job.created_at) < cutoffs.jobs
    ]
    for plan_id in old:
        del tables.jobs[plan_id]
        tables.members.pop(plan_id, None)
    return len(old)
