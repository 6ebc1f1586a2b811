"""How do the inbox's values become parameters of a statement, and its lines values again?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, Handling, Identity, Known, NewHandling, NewRow, Row, RowId, Search, Track
from hooklane.model.message import Message, Status

Line = Sequence[Any]

_HEADERS = msgspec.json.Decoder(tuple[tuple[str, str], ...])

# Values to parameters


def row_params(row: NewRow) -> dict[str, Any]:
    message = row.message
    return {
        "account": message.account,
        "source": message.source,
        "event_id": message.event_id,
        "variant": row.variant,
        "type": message.type,
        "key": message.key,
        "seq": message.seq,
        "prev_seq": message.prev_seq,
        "event_time": message.event_time,
        "delivery_id": message.delivery_id,
        "attempt": message.attempt,
        "id_signed": int(message.id_signed),
        "fingerprint": message.fingerprint,
        "body": message.body,
        "headers": msgspec.json.encode(row.headers).decode() if row.headers else "[]",
        "status": str(row.status),
        "reason": row.reason,
        "received_at": row.received_at,
    }


def handling_params(id: RowId, row: NewRow | None, handling: NewHandling) -> dict[str, Any]:
    scope = {} if row is None else {"account": row.message.account, "source": row.message.source}
    return scope | {
        "row_id": id,
        "handler": handling.handler,
        "status": str(handling.status),
        "due_at": handling.due_at,
        "attempts": handling.attempts,
        "key": handling.key,
        "seq": handling.seq,
        "prev_seq": handling.prev_seq,
        "error": None if handling.error is None else without_nul(handling.error),
        "traceback": None if handling.traceback is None else without_nul(handling.traceback),
        "settled_at": handling.settled_at,
    }


def identity_params(identity: Identity) -> dict[str, Any]:
    return {
        "source": identity.source,
        "account": identity.account,
        "event_id": identity.event_id,
        "variant": identity.variant,
    }


def track_params(track: Track) -> dict[str, Any]:
    return {"source": track.source, "account": track.account, "handler": track.handler, "key": track.key}


def track_order(track: Track) -> tuple[str, str, str, str]:
    """The order in which every session locks tracks."""
    return (track.source, track.account, track.handler, track.key)


def handlers_params(handlers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"handlers": json.dumps(list(handlers))}


def ids_params(ids: Iterable[RowId]) -> dict[str, Any]:
    return {"ids": json.dumps(list(dict.fromkeys(ids)))}


def search_params(search: Search) -> dict[str, Any]:
    return {
        "ids": None if search.ids is None else json.dumps(list(search.ids)),
        "source": search.source,
        "account": search.account,
        "status": None if search.status is None else search.status.value,
        "handler": search.handler,
        "type": search.type,
        "key": search.key,
        "event_id": search.event_id,
        "received_from": search.received_from,
        "received_until": search.received_until,
        "after": search.after,
        "limit": search.limit,
    }


def without_nul(text: str) -> str:
    """What a handler raised may be any text; PostgreSQL has no NUL, and no database has lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


# Lines to values


def known_of(lines: Sequence[Line]) -> Known | None:
    if not lines:
        return None
    id, status, fingerprint, type = lines[0][:4]
    handlings = tuple(
        Handling(
            handler=handler,
            status=Status(state),
            attempts=attempts,
            due_at=Instant(due_at),
            fence=fence,
            key=key,
            error=error,
        )
        for _, _, _, _, handler, state, attempts, due_at, fence, key, error in lines
        if handler is not None
    )
    return Known(id=id, status=Status(status), fingerprint=bytes(fingerprint), type=type, handlings=handlings)


def handling_of(line: Line) -> Handling:
    handler, status, attempts, due_at, fence, key, seq, prev_seq, error, traceback, settled_at = line
    return Handling(
        handler=handler,
        status=Status(status),
        attempts=attempts,
        due_at=Instant(due_at),
        fence=fence,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        error=error,
        traceback=traceback,
        settled_at=None if settled_at is None else Instant(settled_at),
    )


def row_of(line: Line, handlings: tuple[Handling, ...]) -> Row:
    (id, account, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id, attempt, id_signed,
     fingerprint, body, headers, status, reason, copies, received_at) = line  # fmt: skip
    message = Message(
        source=source,
        event_id=event_id,
        type=type,
        body=b"" if body is None else bytes(body),
        account=account,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        event_time=None if event_time is None else Instant(event_time),
        delivery_id=delivery_id,
        attempt=attempt,
        fingerprint=bytes(fingerprint),
        id_signed=bool(id_signed),
    )
    return Row(
        id=id,
        message=message,
        status=Status(status),
        received_at=Instant(received_at),
        variant=variant,
        reason=reason,
        copies=copies,
        purged=body is None,
        headers=_HEADERS.decode(headers),
        handlings=handlings,
    )


def claimed_of(line: Line, row: Row) -> Claimed:
    _, handler, fence, attempts, key, seq, prev_seq, was = line
    return Claimed(
        id=row.id,
        handler=handler,
        fence=fence,
        attempts=attempts,
        message=row.message,
        received_at=row.received_at,
        variant=row.variant,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        taken_over=was == Status.IN_PROGRESS,
        headers=row.headers,
    )
