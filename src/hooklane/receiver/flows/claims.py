"""Claims: taken in batches, let go unused, renewed while they are worked on."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.inbox import Claimed
from hooklane.model.message import Status
from hooklane.receiver.flows.context import Context
from hooklane.receiver.order import Refetch
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import transactional
from hooklane.store.inbox import Flow


@transactional
def claim_due(
    context: Context, handlers: Sequence[Handler], *, expired: bool, lease_ms: int, limit: int
) -> Flow[list[Claimed]]:
    """Claim what is due for *handlers*."""
    names = [(handler.source, handler.name) for handler in handlers]
    claimed = yield from context.store.claim(
        names, expired=expired, now=context.clock(), lease_ms=lease_ms, limit=limit
    )
    # Of several hints about one key one is enough: its fetch covers the others, unless another worker has claimed them.
    thin = {(handler.source, handler.name) for handler in handlers if isinstance(handler.order, Refetch)}
    kept: dict[object, Claimed] = {}
    for each in claimed:
        hint = (each.message.source, each.message.account, each.handler, each.key)
        is_thin = hint[3] is not None and (each.message.source, each.handler) in thin
        if not is_thin or hint not in kept:
            kept[hint if is_thin else (each.id, each.handler)] = each
        else:
            yield from put_back(context, each)
    return list(kept.values())


def put_back(context: Context, claimed: Claimed) -> Flow[None]:
    """Let go of a claim that was not used; no attempt is burned."""
    yield from context.fail(claimed, Status.PENDING, context.clock(), attempts=claimed.attempts - 1)


def renew_all(context: Context, claims: Sequence[Claimed], lease_ms: int) -> Flow[None]:
    """Longer leases for what is still in hand."""
    for each in claims:
        yield from context.store.renew(each.id, each.handler, each.fence, now=context.clock(), lease_ms=lease_ms)
