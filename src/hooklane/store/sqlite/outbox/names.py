"""Who has a name? An idempotency key or an event's own id is used once; the same content again is the same event."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hooklane.store.caller.flow import Statement
from hooklane.store.outbox import Draft, Published, Refused, Stamp
from hooklane.store.sqlite.outbox.statements import SQL
from hooklane.store.sqlite.rows import Many, PublishFlow, Quiet

_CLAIM = Quiet(SQL["claim_names"])


def claim_all(numbered: Sequence[tuple[Draft, int]]) -> PublishFlow[bool]:
    """Take the names of all drafts at once, each for its row; False, and nothing taken, where one is not free."""
    rows = [
        (draft.event.tenant, name, draft.digest, n, draft.event.created_at)
        for draft, n in numbered
        for name in draft.names
    ]
    if not rows:
        return True
    if len({row[:2] for row in rows}) < len(rows):
        return False  # twins in one commit
    if len((yield Many(_CLAIM, rows))) == len(rows):
        return True
    for tenant, name, _, n, _ in rows:
        yield Statement(SQL["free_claimed_name"], {"tenant": tenant, "name": name, "n": n})
    return False


def claim(draft: Draft, n: int) -> PublishFlow[int | Refused | None]:
    """Take the draft's names for row *n*; else the row that has them, or a refusal when its content differs."""
    tenant = draft.event.tenant
    taken: list[str] = []
    for name in draft.names:
        claim = dict(zip(_CLAIM.columns, (tenant, name, draft.digest, n, draft.event.created_at), strict=True))
        if (yield Statement(_CLAIM.single, claim)):
            taken.append(name)
            continue
        ((digest, holder),) = yield Statement(SQL["holder_of_name"], {"tenant": tenant, "name": name})
        for mine in taken:
            yield Statement(SQL["free_name"], {"tenant": tenant, "name": mine})
        if digest != draft.digest:
            return Refused(
                "idempotency_conflict", "this idempotency key or id was used for an event with other content"
            )
        return int(holder)
    return None


def published_before(n: int) -> PublishFlow[Published]:
    rows = yield Statement(SQL["published_event"], {"n": n})
    if not rows:  # the event was pruned; its answer was kept with its name
        ((kept,),) = yield Statement(SQL["kept_answer"], {"n": n})
        rows = (msgspec.json.decode(kept),)
    ((event_id, type_, key, created_at, stamps),) = rows
    places = tuple(Stamp(endpoint, seq) for endpoint, _, seq in msgspec.json.decode(stamps))
    return Published(event_id, type_, key, created_at, places, repeated=True)
