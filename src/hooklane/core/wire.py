"""What does one delivery look like on the wire? The same bytes for every copy of an event."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import msgspec

from hooklane.model.clock import Instant, rfc3339
from hooklane.model.endpoint import Order, Payload
from hooklane.model.event import Event

_text: Final = msgspec.json.Encoder().encode


def body_of(
    event: Event,
    payload: Payload,
    *,
    order: Order = Order.KEY,
    key: str | None,
    seq: int | None,
    prev_seq: int | None,
) -> bytes:
    """The body of a delivery. Key and seq are inside it, so the signature covers them; *data* is not re-written."""
    if payload is Payload.RAW:
        return event.data
    head = b'{"id":"%b","type":"%b","timestamp":"%b",' % (
        event.id.encode(),
        event.type.encode(),
        rfc3339(event.created_at).encode(),
    )
    if seq is not None:
        assert key is not None
        head += b'"key":%b,"seq":%d,"prev_seq":%d,' % (_text(key), seq, prev_seq or 0)
        if order is Order.GLOBAL and event.key is not None:
            head += b'"event_key":%b,' % _text(event.key)
    return b'%b"data":%b}' % (head, event.data)


def headers_of(
    event: Event,
    *,
    key: str | None,
    seq: int | None,
    prev_seq: int | None,
    attempt: int,
    now: Instant,
    signature: bytes,
) -> bytes:
    """The header lines that belong to this attempt; the transport adds those that belong to the endpoint."""
    event_id = event.id.encode()
    lines = (
        b"Content-Type: application/json\r\nwebhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n"
        b"Idempotency-Key: %b\r\nX-Attempt: %d\r\n" % (event_id, now // 1000, signature, event_id, attempt)
    )
    if seq is not None:
        assert key is not None
        # Percent-encoded, because a header is ASCII and a key need not be.
        lines += b"X-Key: %b\r\nX-Seq: %d\r\nX-Prev-Seq: %d\r\n" % (quote_key(key), seq, prev_seq or 0)
    if event.replay_of is not None:
        lines += b"X-Replay-Of: %b\r\n" % event.replay_of.encode()
    return lines


_is_plain: Final = re.compile(r"[A-Za-z0-9_.~!#$&'()*+,/:;=?@\[\]-]*").fullmatch


@lru_cache(maxsize=4096)  # a busy key is sent again and again
def quote_key(key: str) -> bytes:
    """A key as it stands in `X-Key`: printable ASCII as it is, `%` and everything else percent-encoded."""
    # Most keys are plain, and a new one should cost little more than one that is known.
    return key.encode() if _is_plain(key) else quote(key, safe="!#$&'()*+,/:;=?@[]~").encode()
