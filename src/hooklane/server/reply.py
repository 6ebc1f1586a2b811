"""The responses of the fast path as bytes: one write per answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import msgspec

from hooklane.model.clock import Instant, rfc3339
from hooklane.server.problem import MEDIA, Problem
from hooklane.store.outbox import Published

_ACCEPTED = (
    b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
    b"cache-control: no-store\r\nhooklane-api: v1\r\ncontent-length: %d\r\n%b\r\n%b"
)
_PROBLEM = (
    b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\nx-content-type-options: nosniff\r\n"
    b"cache-control: no-store\r\nhooklane-api: v1\r\ncontent-length: %d\r\n%b%b\r\n%b"
)
_json: Final = msgspec.json.Encoder().encode


def accepted(event: Published, common: bytes) -> bytes:
    """The 202 of *event*; *common* are header lines."""
    lanes = b",".join(
        [
            b'{"endpoint":"%b","seq":%b}'
            % (stamp.endpoint_id.encode(), b"null" if stamp.seq is None else b"%d" % stamp.seq)
            for stamp in event.stamps
        ]
    )
    # Ids and types are plain by their grammar; only a key needs to be written as JSON.
    body = b'{"id":"%b","type":"%b","key":%b,"lanes":[%b],"created_at":"%b"}' % (
        event.event_id.encode(),
        event.type.encode(),
        b"null" if event.key is None else _json(event.key),
        lanes,
        _when(event.created_at),
    )
    return _ACCEPTED % (len(body), common, body)


def problem_reply(problem: Problem, common: bytes) -> bytes:
    """The whole answer of a problem."""
    body = problem.body()
    own = b"".join(b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in problem.headers)
    phrase = HTTPStatus(problem.status).phrase.encode()
    return _PROBLEM % (problem.status, phrase, MEDIA.encode(), len(body), own, common, body)


_common: tuple[object, bytes] = (None, b"")


def common_lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """*headers* as lines. uvicorn makes a new list of them every second, and until then they are the same."""
    global _common
    if _common[0] is not headers:
        _common = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
    return _common[1]


def _when(at: Instant) -> bytes:
    return b"%b.%03dZ" % (_second(at // 1000), at % 1000)


@lru_cache(maxsize=256)
def _second(seconds: int) -> bytes:
    return rfc3339(Instant(seconds * 1000))[:-5].encode()
