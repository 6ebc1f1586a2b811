"""How does a row of the inbox look in JSON? Times as RFC 3339, the payload as it came, credentials never."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.inbox import OPEN, Count, Handling, Row
from hooklane.model.message import Status
from hooklane.receiver.stats import Stats
from hooklane.server.shapes_of_inbox import HandlingShape, RowCount, RowShape, WholeHandling
from hooklane.server.shapes_of_recovery import DeadLetterShape
from hooklane.server.views import View, filled, when

ERROR_CHARS_MAX = 200

_DUE = (Status.PENDING, Status.FAILED)
# A source keeps none of these; a header that an application told it to read might be one all the same.
_CREDENTIALS = ("authorization", "cookie", "token", "api-key", "apikey", "secret", "password")


def row(one: Row) -> View:
    """What a list shows of *one*."""
    return filled(
        RowShape,
        one.message,
        id=str(one.id),
        status=str(one.overall),
        attempts=max((each.attempts for each in one.handlings), default=0),
        copies=one.copies,
        received_at=one.received_at,
        next_at=min((each.due_at for each in one.handlings if each.status in _DUE), default=None),
        error=_error(one),
        handlers=[_handling(each) for each in one.handlings],
    )


def whole(one: Row) -> View:
    """Everything that is kept of *one*."""
    message = one.message
    return {
        **row(one),
        "handlers": [_whole_handling(each) for each in one.handlings],
        "variant": one.variant,
        "reason": one.reason,
        "prev_seq": message.prev_seq,
        "event_time": when(message.event_time),
        "delivery_id": message.delivery_id,
        "headers": [{"name": name, "value": _shown(name, value)} for name, value in one.headers],
        "purged": one.purged,
        **_payload(one),
    }


def letter(one: Row) -> View:
    """A row that died, in the shape of a sender's dead letter; what only a sender has is null."""
    dead = dead_of(one)
    return filled(
        DeadLetterShape,
        one.message,
        id=str(one.id),
        side="inbox",
        endpoint=None,
        handlers=[_handling(each) for each in one.handlings],
        attempts=max((each.attempts for each in dead), default=0),
        reason=_error(one) or "",
        died_at=max((each.settled_at for each in dead if each.settled_at), default=one.received_at),
        waiting=None,
        note="",
    )


def stats(counts: Sequence[Count], store: str | None, now: Instant) -> View:
    """How many handlings are in which status; *store* is None where no inbox is."""
    told = Stats(tuple(counts), {}, now)
    sources: dict[str, dict[str, int]] = {}
    for count in counts:
        of_source = sources.setdefault(count.source, {})
        of_source[str(count.status)] = of_source.get(str(count.status), 0) + count.rows
    return {
        "store": store,
        "statuses": {str(status): told.total(status) for status in Status},
        "sources": sources,
        "dead": told.dead,
        "owed": sum(told.total(status) for status in OPEN),
        "oldest_owed_at": when(min((count.oldest_at for count in counts if count.status in OPEN), default=None)),
        "lag_ms": told.lag_ms,
        "counts": [filled(RowCount, count) for count in counts],
    }


def dead_of(one: Row) -> list[Handling]:
    """The handlings that died."""
    return [each for each in one.handlings if each.status is Status.DEAD]


def _error(one: Row) -> str | None:
    """Of the handling that speaks for the row, or why the row itself is as it is."""
    loud = next((each.error for each in one.handlings if each.status is one.overall), None)
    return _short(loud or one.reason)


def _handling(one: Handling, shape: type[HandlingShape] = HandlingShape, **more: object) -> View:
    next_at = one.due_at if one.status in _DUE else None
    return filled(shape, one, next_at=next_at, error=_short(one.error), **more)


def _whole_handling(one: Handling) -> View:
    leased_until = one.due_at if one.status is Status.IN_PROGRESS else None
    return {**_handling(one, WholeHandling, leased_until=leased_until), "error": one.error}


def _payload(one: Row) -> View:
    if one.purged:
        return {"payload": None, "payload_encoding": None}
    body = one.message.body
    if _is_json(body):
        return {"payload": msgspec.Raw(body), "payload_encoding": "json"}
    return {"payload": base64.b64encode(body).decode(), "payload_encoding": "base64"}


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    line = text.strip().partition("\n")[0]
    return line if len(line) <= ERROR_CHARS_MAX else f"{line[: ERROR_CHARS_MAX - 1]}…"


def _shown(name: str, value: str) -> str:
    low = name.lower()
    return "***" if any(word in low for word in _CREDENTIALS) else value
