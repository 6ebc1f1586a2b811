"""How does a blocked lane get going again? Conditional updates: only what is dead can be replayed or skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.plan import Op
from hooklane.store.outbox import Recovery
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

_CLOSED = {Op.REPLAY: "replayed", Op.SKIP: "skipped"}


def replay(tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Flow[Recovery | None]:
    return (yield from _recover_one(Op.REPLAY, tenant, dead_letter_id, "", actor, now))


def skip(tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Flow[Recovery | None]:
    return (yield from _recover_one(Op.SKIP, tenant, dead_letter_id, note, actor, now))


def _recover_one(op: Op, tenant: str, letter: str, note: str, actor: str, now: Instant) -> Flow[Recovery | None]:
    done = yield from recover(op, tenant, [letter], note=note, actor=actor, now=now)
    if letter in done:
        yield from audit.append(act_of(tenant, letter, _CLOSED[op], note, actor, now))
    return done.get(letter)


def act_of(tenant: str, letter: str, what: str, note: str, actor: str, now: Instant) -> Act:
    return Act(tenant=tenant, at=now, actor=actor, action=f"dead_letter.{what}", subject=letter, note=note)


def recover(
    op: Op, tenant: str, letters: Sequence[str], *, note: str, actor: str, now: Instant
) -> Flow[dict[str, Recovery]]:
    """Move the heads, close the letters and wake the owners; those that are dead no more are left out.

    What goes on the audit log is the caller's business: a person's act has a line, a job's replays have one together.
    """
    found = yield sql("letters_to_recover", tenant=tenant, ids=list(letters))
    rows = [{"id": id, "lane_id": lane, "seq": seq, "pid": pid} for id, lane, _, _, seq, _, pid in found]
    ordered, loose = [row for row in rows if row["lane_id"] > 0], [row for row in rows if row["lane_id"] < 0]
    verb = "replay" if op is Op.REPLAY else "skip"
    moved = {(lane, seq) for lane, seq in (yield Batch(f"{verb}_heads", ordered, {"now": now}))}
    moved |= {(lane, seq) for lane, seq in (yield Batch(f"{verb}_loose", loose, {"now": now}))}
    done = [row for row in rows if (row["lane_id"], row["seq"]) in moved]
    record: dict[str, Any] = {"tenant": tenant, "note": note, "actor": actor, "now": now, "state": _CLOSED[op]}
    if op is Op.SKIP:
        yield Batch("add_skipped", [row for row in done if row["lane_id"] > 0], record)
    for name in ("close_letters", "wake"):
        yield Batch(name, done, record)
    ids = {row["id"] for row in done}
    return {id: Recovery(*fields) for id, *fields, _ in found if id in ids}
