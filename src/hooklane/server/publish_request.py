"""One `POST /api/v1/events` on the fast path, from its headers to its reply, and the headers it had."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeGuard

from hooklane.model.event import DEFAULT_TENANT
from hooklane.server.arriving import ArrivingBody


class NoWaiter:
    """uvicorn sets the event of a cycle whose connection is lost; no task waits for it on the fast path."""

    def set(self) -> None:
        pass


NO_WAITER = NoWaiter()


class PublishRequest:
    """A request in the shape in which uvicorn looks at its own cycles."""

    __slots__ = (
        "body",
        "chunks",
        "disconnected",
        "idempotency_key",
        "keep_alive",
        "message_event",
        "reply",
        "response_complete",
        "size",
        "tenant",
    )

    def __init__(self, keep_alive: bool, tenant: str = DEFAULT_TENANT) -> None:
        self.keep_alive = keep_alive
        self.tenant = tenant
        self.idempotency_key: str | None = None
        self.chunks: list[bytes] = []
        self.size = 0
        self.body: ArrivingBody | None = None
        """Where it comes in several pieces: its place among the bodies that arrive."""
        self.reply: bytes | None = None
        self.response_complete = False
        self.disconnected = False
        self.message_event = NO_WAITER


def is_publish_request(cycle: object) -> TypeGuard[PublishRequest]:
    """Whether what uvicorn holds to be its cycle is one of ours."""
    return type(cycle) is PublishRequest


@dataclass(slots=True)
class KnownHead:
    """A publish as it came on this connection, whole and alone: the same head with as many bytes means the same again.

    A client says the same thing all day; what the parser made of such a head depends on nothing else. Only its
    idempotency key is another one each time, as long as the one before.
    """

    start: bytes
    """Up to the idempotency key; without one, the whole head."""
    key_end: int
    end: bytes
    """What follows the key."""
    authorization: bytes | None
    tenant: str

    @property
    def size(self) -> int:
        return self.key_end + len(self.end)

    def key_of(self, data: bytes) -> bytes:
        """The idempotency key of a request that begins as this one, empty where it has none."""
        return data[len(self.start) : self.key_end]


_PLAIN_KEY: Final = re.compile(rb"[\x21-\x7e]*").fullmatch
_KEY_FIELD = b"\r\nidempotency-key:"


def is_plain_key(key: bytes) -> bool:
    """Whether a parser would find the same key: no line ends in it, and no space that it would strip."""
    return _PLAIN_KEY(key) is not None


def known_head(head: bytes, headers: dict[bytes, bytes], tenant: str) -> KnownHead | None:
    """The head of a publish, to be known again; None where its key cannot be told by its place."""
    authorization, key = headers.get(b"authorization"), headers.get(b"idempotency-key")
    if key is None:
        return KnownHead(head, len(head), b"", authorization, tenant)
    if not key or not is_plain_key(key):
        return None
    at = head.find(key, head.lower().find(_KEY_FIELD) + len(_KEY_FIELD))
    return KnownHead(head[:at], at + len(key), head[at + len(key) :], authorization, tenant)
