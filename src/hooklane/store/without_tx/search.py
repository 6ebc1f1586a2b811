"""Which rows does a person mean? A search, decided row by row, for stores whose indexes know only part of it."""

from __future__ import annotations

from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status

CLAIMABLE = (Status.PENDING, Status.FAILED)


def matches(row: Row, search: Search) -> bool:
    """Whether *row* is one of those that *search* asks for."""
    message = row.message
    exact = (
        (search.source, message.source),
        (search.account, message.account),
        (search.type, message.type),
        (search.key, message.key),
        (search.event_id, message.event_id),
    )
    if any(wanted is not None and wanted != found for wanted, found in exact):
        return False
    if search.ids is not None and row.id not in search.ids:
        return False
    if search.received_from is not None and row.received_at < search.received_from:
        return False
    if search.received_until is not None and row.received_at >= search.received_until:
        return False
    if search.after is not None and str(row.id) <= str(search.after):
        return False
    handlings = [each for each in row.handlings if search.handler in (None, each.handler)]
    if search.handler is not None and not handlings:
        return False
    if search.status is None:
        return True
    own = row.status if row.status is not Status.PENDING else None
    return search.status is own or any(each.status is search.status for each in handlings)
