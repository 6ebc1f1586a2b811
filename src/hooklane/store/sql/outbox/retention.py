"""What may go? Events whose deliveries are all settled, in small steps, with everything that hangs on them.

In SQLite, freed pages are used again by what is published next, so a file whose traffic is steady stops growing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.model.ids import new_id
from hooklane.store.cursors import number_of
from hooklane.store.recovery import Cutoffs, Pruned
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

STAGES = ("events", "attempts", "skipped", "names", "audit", "jobs", "rest")

Event = Sequence[Any]
"""n, tenant, id, type, key, created_at, stamps."""
Removed = tuple[dict[str, int], str]
"""Rows by table, and where the stage goes on; empty at its end."""
Place = dict[str, int]
"""Where a delivery stands: event_at, lane_id, seq."""


def step_of(cursor: str | None) -> tuple[str, str]:
    """The stage that a cursor names, and where in it to go on."""
    stage, _, at = (cursor or STAGES[0]).partition(".")
    return (stage, at) if stage in STAGES else (STAGES[-1], "")


def following(stage: str, at: str, removed: dict[str, int]) -> Pruned:
    """What a step reports: the same stage while it has more, else the next one."""
    if at:
        return Pruned(removed, f"{stage}.{at}")
    after = STAGES.index(stage) + 1
    return Pruned(removed, STAGES[after] if after < len(STAGES) else None)


def prune(cutoffs: Cutoffs, stage: str, at: str, limit: int) -> Flow[Removed | None]:
    """One step of a stage other than the events; None where another process is at it: one is enough."""
    if not (yield sql("prune_lock")):
        return None
    match stage:
        case "attempts":
            return (yield from _attempts(cutoffs, limit))
        case "skipped":
            return (yield from _skipped(cutoffs, at, limit))
        case "names":
            return (yield from _names(cutoffs, number_of(at or "0") or 0, limit))
        case "audit":
            lines = yield from audit.prune(cutoffs.audit, limit)
            return {"audit": lines}, "more" if lines == limit else ""
        case "jobs":
            removed = yield from _jobs(cutoffs, limit)
            return {"jobs": removed}, "more" if removed else ""
        case _:
            wakeups = yield sql("drop_wakeups", before=cutoffs.wakeups, limit=limit)
            workers = yield sql("drop_workers", before=cutoffs.wakeups)
            return {"wakeups": len(wakeups), "workers": len(workers)}, "more" if len(wakeups) == limit else ""


# --- events ---


def find_events(cutoffs: Cutoffs, after: int, limit: int) -> Flow[tuple[list[Event], str]]:
    """The events that may go, among the next *limit*; and where to look next, empty at the end.

    It only reads, so that a look at much that must stay holds up no writer.
    """
    rows = yield sql("oldest_events", after=after, limit=limit)
    old = [row for row in rows if row[5] < cutoffs.events]
    over = yield from _over(old, cutoffs.events)
    return over, str(rows[-1][0]) if old and len(rows) == limit else ""


def remove_events(found: Sequence[Event]) -> Flow[dict[str, int] | None]:
    """Remove those of the events that may still go, with their places, attempts and closed letters.

    Names keep the answer they gave. None where another process prunes.
    """
    if not (yield sql("prune_lock")):
        return None
    busy = yield Batch("sent_again", [{"tenant": row[1], "id": row[2]} for row in found])
    again = {tuple(row) for row in busy}
    left = [row for row in found if (row[1], row[2]) not in again]
    held = {lane for (lane,) in (yield Batch("held_lanes", [one for row in left for one in _places(row)]))}
    gone = [row for row in left if held.isdisjoint(one["lane_id"] for one in _places(row))]
    return (yield from _remove(gone)) if gone else {}


def _places(row: Event) -> list[Place]:
    return [{"event_at": row[5], "lane_id": lane, "seq": seq or 1} for _, lane, seq in msgspec.json.decode(row[6])]


def _over(rows: Sequence[Event], before: int) -> Flow[list[Event]]:
    """The events whose deliveries are all settled, and were last tried *before*: one that waited long is kept on."""
    flat = [place for row in rows for place in _places(row)]
    ordered = sorted({one["lane_id"] for one in flat if one["lane_id"] > 0})
    found = (yield sql("heads_of_lanes", lanes=ordered)) if ordered else ()
    heads: dict[int, int] = {row[0]: row[1] for row in found}
    loose = [-one["lane_id"] for one in flat if one["lane_id"] < 0]
    owed = {-n for (n,) in (yield sql("owed_loose", ns=loose))} if loose else set()
    recent = {tuple(row) for row in (yield Batch("recent_attempts", flat, {"before": before}))}

    def is_over(place: Place) -> bool:
        lane, seq = place["lane_id"], place["seq"]
        settled = lane not in owed if lane < 0 else heads.get(lane, 1) > seq
        return settled and (lane, seq) not in recent

    return [row for row in rows if all(map(is_over, _places(row)))]


def _remove(rows: Sequence[Event]) -> Flow[dict[str, int]]:
    answers = [msgspec.json.encode((*row[2:6], bytes(row[6]).decode())) for row in rows]
    kept = [{"at": row[5], "n": row[0], "answer": answer} for row, answer in zip(rows, answers, strict=True)]
    yield Batch("keep_answers", kept)
    places = [place for row in rows for place in _places(row)]
    attempts = yield Batch("drop_attempts", places)
    letters = yield Batch("drop_letters", places)
    yield Batch("drop_places", [one for one in places if one["lane_id"] > 0])
    loose = yield Batch("drop_loose", [{"n": -one["lane_id"]} for one in places if one["lane_id"] < 0])
    past = Counter((tenant, endpoint_id, state) for tenant, endpoint_id, state in loose)
    yield from _add_past("loose", past)
    yield sql("drop_events", ns=[row[0] for row in rows])
    return {"events": len(rows), "attempts": len(attempts), "dead_letters": len(letters)}


def _add_past(kind: str, counts: Counter[tuple[str, str, str]]) -> Flow[None]:
    yield Batch(
        "add_past",
        [
            {"tenant": tenant, "endpoint_id": endpoint_id, "kind": kind, "state": state, "many": many}
            for (tenant, endpoint_id, state), many in counts.items()
        ],
    )


# --- the other stages ---


def _attempts(cutoffs: Cutoffs, limit: int) -> Flow[Removed]:
    """Attempts may go before their event does. A counter says how far that is done; each event is looked at once."""
    ((after,),) = yield sql("attempts_pruned")
    rows = yield sql("oldest_events", after=after, limit=limit)
    old = [row for row in rows if row[5] < cutoffs.attempts]
    over = yield from _over(old, cutoffs.attempts)
    removed = yield Batch("drop_attempts", [place for row in over for place in _places(row)])
    if old:
        yield sql("set_attempts_pruned", n=old[-1][0])
    return {"attempts": len(removed)}, "more" if len(old) == limit else ""


def _skipped(cutoffs: Cutoffs, at: str, limit: int) -> Flow[Removed]:
    """Old neighbours become one row, so that a lane that skips everything does not grow; the rest goes to the past."""
    lane, _, after = (at or "0-0").partition("-")
    rows = yield sql("old_skipped", before=cutoffs.events, lane=number_of(lane), seq=number_of(after), limit=limit)
    removed = 0
    last: tuple[int, int, int, str] | None = None  # lane, seq, upto, kind of the old row that a neighbour may join
    for lane_id, seq, upto, kind, tenant, endpoint_id, is_old, is_over in rows:
        follows = last is not None and (lane_id, seq, kind) == (last[0], last[2] + 1, last[3])
        start = last[1] if last is not None and follows and is_old else seq
        last = (lane_id, start, upto, kind) if is_old else None
        if is_old and is_over:
            yield sql("drop_skipped", lane=lane_id, first=start, last=seq)
            yield from _add_past("lane", Counter({(tenant, endpoint_id, kind): upto - start + 1}))
            last, removed = None, removed + 1
        elif start != seq:
            yield sql("drop_skipped", lane=lane_id, first=seq, last=seq)
            yield sql("join_skipped", lane=lane_id, seq=start, upto=upto)
            removed += 1
    if len(rows) < limit:
        return {"skipped": removed}, ""
    # Where something was joined, once more from that row on: its neighbours may come in the next step.
    return {"skipped": removed}, f"{rows[-1][0]}-{last[1] - 1 if last and removed else rows[-1][1]}"


def _names(cutoffs: Cutoffs, since: int, limit: int) -> Flow[Removed]:
    """A name lives at least as long as its event: else the same id could be published twice."""
    rows = yield sql("old_names", since=since, before=cutoffs.idempotency, limit=limit)
    gone = [{"tenant": tenant, "name": name} for tenant, name, _, may_go in rows if may_go]
    yield Batch("drop_names", gone)
    if len(rows) < limit:
        return {"idempotency": len(gone)}, ""
    return {"idempotency": len(gone)}, str(rows[-1][2] if gone else rows[-1][2] + 1)


def _jobs(cutoffs: Cutoffs, limit: int) -> Flow[int]:
    """Plans that were never run, jobs that ended long ago, and members of plans that were never finished."""
    # Ids begin with their time, so a name tells the age.
    bound = new_id("pln", cutoffs.jobs, chance=bytes(10))
    rows = yield sql("old_plan", bound=bound, before=cutoffs.jobs)
    if not rows:
        return 0
    plan = {"plan": rows[0][0]}
    if gone := (yield sql("drop_members", **plan, limit=limit)):
        return len(gone)
    yield sql("drop_redeliveries", **plan)
    return len((yield sql("drop_job", **plan)))
