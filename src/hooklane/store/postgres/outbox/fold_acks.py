"""What must be done every few seconds? Acks are folded into their lanes; what is not needed any more is removed."""

from __future__ import annotations

from hooklane.store.caller.flow import Statement
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.sql.outbox.steps import Flow
from hooklane.store.sql.outbox.tenants import finish_deletions

FOLD_MAX = 50_000
FIRST = "(0,0)"
"""Where a table begins."""
PRUNE_MAX = 5_000
RECOVERED_MS = 3_600_000


def fold(most: int = FOLD_MAX, start: str = FIRST) -> Flow[tuple[int, str]]:
    """Fold up to *most* acks that stand from *start* on; how many, and where the last one stood.

    0 also when another process is at it: one is enough.
    """
    if not (yield Statement(SQL["fold_lock"])):
        return 0, start
    ((taken, _, last),) = yield Statement(SQL["fold_acks"], {"most": most, "start": start})
    return int(taken), last or start


def prune(idempotency_ms: int) -> Flow[None]:
    """Remove what is not needed any more, in small batches."""
    if not (yield Statement(SQL["fold_lock"])):
        return
    yield Statement(SQL["sum_loose_delivered"])
    yield Statement(SQL["drop_old_wakeups"], {"ms": RECOVERED_MS})
    yield Statement(SQL["drop_old_workers"], {"ms": RECOVERED_MS})
    yield Statement(SQL["drop_old_names"], {"ms": idempotency_ms, "most": PRUNE_MAX})
    yield from finish_deletions()
