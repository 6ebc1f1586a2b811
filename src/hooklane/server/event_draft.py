"""From the body of a publish to a draft."""

from __future__ import annotations

from hooklane.model.clock import Instant
from hooklane.model.publishing import Draft
from hooklane.sender.draft import draft_of
from hooklane.server.event_bodies import EventBody


def draft_from(
    body: EventBody, tenant: str, now: Instant, idempotency_key: str | None, names: tuple[str, ...] = ()
) -> Draft:
    """The draft that a body of the wire asks for; *names* are given to it by its batch."""
    return draft_of(
        body.type,
        bytes(body.data),
        now=now,
        key=body.key,
        event_id=body.id,
        endpoints=body.endpoints,
        idempotency_key=idempotency_key,
        names=names,
        tenant=tenant,
    )
