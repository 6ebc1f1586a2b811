"""Who did what? Lines that are only ever appended, each sealed to the one before, in the commit of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import GENESIS, Act, AuditLine, Link, seal_of
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain

# Whoever appends waits here for whoever appended before, so take this lock last.
_HEAD = Statement("SELECT n, seal FROM hooklane.audit_chain WHERE place = 'head' FOR UPDATE")
_ENDS = Statement("SELECT place, n, seal FROM hooklane.audit_chain")
_APPEND = """
INSERT INTO hooklane.audit (n, tenant, at, actor, action, subject, note, seal)
SELECT * FROM unnest(:n::bigint[], :tenant::text[], :at::bigint[], :actor::text[], :action::text[], :subject::text[],
    :note::text[], :seal::bytea[]) RETURNING n
"""
_MOVE_HEAD = "UPDATE hooklane.audit_chain SET n = :n, seal = :seal WHERE place = 'head' RETURNING n"
_LINE = "n, tenant, at, actor, action, subject, note, seal"
_OF_TENANT = f"""
SELECT {_LINE} FROM hooklane.audit WHERE tenant = :tenant AND (:below::bigint IS NULL OR n < :below)
ORDER BY n DESC LIMIT :limit::bigint
"""
_CHAIN = f"SELECT {_LINE} FROM hooklane.audit WHERE n > :after ORDER BY n LIMIT :limit::bigint"
_PRUNE = """
WITH old AS (SELECT n, at FROM hooklane.audit ORDER BY n LIMIT :limit::bigint),
     first_kept AS (SELECT min(n) AS n FROM old WHERE at >= :before)
DELETE FROM hooklane.audit a USING old, first_kept
WHERE a.n = old.n AND old.at < :before AND (first_kept.n IS NULL OR a.n < first_kept.n) RETURNING a.n, a.seal
"""
_MOVE_ANCHOR = "UPDATE hooklane.audit_chain SET n = :n, seal = :seal WHERE place = 'anchor' RETURNING n"


def append(act: Act) -> Flow[Link]:
    return (yield from append_all([act]))


def append_all(acts: Sequence[Act]) -> Flow[Link]:
    """Put acts on record; the last link of the chain."""
    rows = yield _HEAD
    last = Link(rows[0][0], bytes(rows[0][1])) if rows and rows[0][0] else Link(0, GENESIS)
    links = []
    for act in acts:
        last = Link(last.n + 1, seal_of(last.seal, last.n + 1, act))
        links.append(last)
    columns: dict[str, list[Any]] = {
        name: [getattr(act, name) for act in acts] for name in ("tenant", "at", "actor", "action", "subject", "note")
    }
    yield Statement(_APPEND, {**columns, "n": [link.n for link in links], "seal": [link.seal for link in links]})
    yield Statement(_MOVE_HEAD, {"n": last.n, "seal": last.seal})
    return last


def audit(tenant: str, cursor: str | None, limit: int) -> Flow[Page[AuditLine]]:
    rows = yield Statement(_OF_TENANT, {"tenant": tenant, "below": number_of(cursor), "limit": limit + 1})
    return Page([_line(row) for row in rows[:limit]], str(rows[limit - 1][0]) if len(rows) > limit else None)


def audit_chain(after: int, limit: int) -> Flow[AuditChain]:
    rows = yield _ENDS
    ends = {place: Link(n, bytes(seal)) for place, n, seal in rows if n}
    anchor, head = ends.get("anchor"), ends.get("head")
    lines = yield Statement(_CHAIN, {"after": max(after, anchor.n if anchor else 0), "limit": limit})
    return AuditChain([_line(row) for row in lines], anchor, head)


def prune(before: int, limit: int) -> Flow[int]:
    """Remove the oldest lines, never one before its elder, and remember where the chain goes on."""
    gone = yield Statement(_PRUNE, {"before": before, "limit": limit})
    if gone:
        last = max(gone, key=lambda row: row[0])
        if last[1]:  # lines from before the chain have no seal
            yield Statement(_MOVE_ANCHOR, {"n": last[0], "seal": bytes(last[1])})
    return len(gone)


def _line(row: Sequence[Any]) -> AuditLine:
    n, tenant, at, actor, action, subject, note, seal = row
    act = Act(tenant=tenant, at=at, actor=actor, action=action, subject=subject, note=note)
    return AuditLine(n, act, bytes(seal))
