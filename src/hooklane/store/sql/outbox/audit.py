"""The audit log: lines that are only ever appended, each sealed to the one before, in the commit of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import GENESIS, Act, AuditLine, Link, seal_of
from hooklane.store.budget import Budget
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain, AuditFilter
from hooklane.store.sql.outbox.steps import N_MAX, Batch, Flow, pattern, sql


def append(act: Act) -> Flow[Link]:
    return (yield from append_all([act]))


def append_all(acts: Sequence[Act]) -> Flow[Link]:
    """Put acts on record; the last link of the chain."""
    last = yield from _last()
    lines = []
    for act in acts:
        last = Link(last.n + 1, seal_of(last.seal, last.n + 1, act))
        fields = {name: getattr(act, name) for name in ("tenant", "at", "actor", "action", "subject", "note")}
        lines.append({**fields, "n": last.n, "seal": last.seal})
    yield Batch("audit_append", lines)
    yield sql("audit_move_head", n=last.n, seal=last.seal)
    return last


def _last() -> Flow[Link]:
    """The end of the chain; that of the log itself where there is no line yet, or the chain's memory was taken away."""
    rows = yield sql("audit_head")
    if not rows or not rows[0][0]:
        rows = yield sql("audit_last_line")
    return Link(rows[0][0], bytes(rows[0][1])) if rows else Link(0, GENESIS)


def audit(tenant: str, wanted: AuditFilter, cursor: str | None, limit: int) -> Flow[Page[AuditLine]]:
    """The newest first; a page that looked at enough ends early, and `next` goes on from there."""
    params: dict[str, Any] = {
        "tenant": tenant,
        "actor": wanted.actor,
        "action": pattern(wanted.action),
        "subjects": list(wanted.subjects) or None,
        "after": wanted.after,
        "before": wanted.before,
    }
    found: list[Sequence[Any]] = []
    budget, below = Budget(), number_of(cursor) or N_MAX
    while True:
        ((looked, floor),) = yield sql("audit_window", below=below, window=budget.window)
        found += yield sql("audit_fitting", **params, below=below, floor=floor or 0, limit=limit + 1 - len(found))
        if len(found) > limit:
            return Page([_line(row) for row in found[:limit]], str(found[limit - 1][0]))
        if looked < budget.window:
            return Page([_line(row) for row in found], None)
        below = floor
        budget.spend(looked)
        if budget.is_spent:
            return Page([_line(row) for row in found], str(below))


def audit_chain(after: int, limit: int) -> Flow[AuditChain]:
    """Run it on one snapshot: a line that is being written belongs to all of it or to none."""
    rows = yield sql("audit_ends")
    ends = {place: Link(n, bytes(seal)) for place, n, seal in rows if n}
    anchor, head = ends.get("anchor"), ends.get("head")
    lines = yield sql("audit_lines", after=max(after, anchor.n if anchor else 0), limit=limit)
    return AuditChain([_line(row) for row in lines], anchor, head)


def prune(before: int, limit: int) -> Flow[int]:
    """Remove the oldest lines, never one before its elder, and remember where the chain goes on."""
    last: Link | None = None
    removed = 0
    for n, at, seal in (yield sql("audit_oldest", limit=limit)):
        if at >= before:
            break
        last, removed = Link(n, bytes(seal)), removed + 1
    if last is not None:
        yield sql("audit_drop", n=last.n)
        if last.seal:  # lines from before the chain have none
            yield sql("audit_move_anchor", n=last.n, seal=last.seal)
    return removed


def _line(row: Sequence[Any]) -> AuditLine:
    n, tenant, at, actor, action, subject, note, seal = row
    act = Act(tenant=tenant, at=at, actor=actor, action=action, subject=subject, note=note)
    return AuditLine(n, act, bytes(seal))
