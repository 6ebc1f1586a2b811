"""One `POST /api/v1/events` on the fast path, from its headers to its reply, and the headers it had."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from hooklane.model.event import DEFAULT_TENANT
from hooklane.server.arriving import ArrivingBody
from hooklane.server.caller import ADMIN, Caller


class NoWaiter:
    """uvicorn sets the event of a cycle whose connection is lost; no task waits for it on the fast path."""

    def set(self) -> None:
        pass


NO_WAITER = NoWaiter()


class PublishRequest:
    """A request in the shape in which uvicorn looks at its own cycles."""

    __slots__ = (
        "body",
        "caller",
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

    def __init__(self, keep_alive: bool, caller: Caller = ADMIN, tenant: str = DEFAULT_TENANT) -> None:
        self.keep_alive = keep_alive
        self.caller = caller
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


class KnownHead(NamedTuple):
    """A publish as it came on this connection, whole and alone: the same head with as many bytes means the same again.

    A client says the same thing all day; what the parser made of such a head depends on nothing else.
    """

    head: bytes
    authorization: bytes | None
    tenant: str
