"""What must be done every few seconds? Acks are folded into their lanes, and what is done is summed up."""

from __future__ import annotations

from hooklane.store.caller.flow import Statement
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.sql.outbox.steps import Flow

FOLD_MAX = 50_000
FIRST = "(0,0)"
"""Where a table begins."""


def fold(start: str = FIRST) -> Flow[tuple[int, str]]:
    """Fold acks that stand from *start* on, up to a bound; how many, and where the last one stood.

    0 also when another process is at it: one is enough.
    """
    if not (yield Statement(SQL["fold_lock"])):
        return 0, start
    ((taken, _, last),) = yield Statement(SQL["fold_acks"], {"most": FOLD_MAX, "start": start})
    return int(taken), last or start


def sum_up() -> Flow[None]:
    """Of deliveries without order that are done, many small numbers become one."""
    if (yield Statement(SQL["fold_lock"])):
        yield Statement(SQL["sum_loose_delivered"])
