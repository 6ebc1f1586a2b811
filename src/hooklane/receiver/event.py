"""What a handler is given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.core.admission.freshness import pick
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.errors import Reject, UsageError
from hooklane.model.clock import Instant
from hooklane.model.message import Message


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that the handler sends on: published in the same commit."""

    type: str
    data: Any
    key: str | None


class Event:
    """One verified event, as a handler sees it. *attempt* counts this handler's attempts, from 1."""

    __slots__ = ("_data_path", "_payload", "_read", "attempt", "can_send", "handler", "headers", "hook_errors", "hooks",
                 "is_over", "message", "received_at", "sent", "tied", "variant")  # fmt: skip

    def __init__(
        self,
        message: Message,
        *,
        attempt: int,
        received_at: Instant,
        handler: str = "",
        variant: str = "",
        headers: tuple[tuple[str, str], ...] = (),
        data_path: str = "",
        can_send: bool = False,
    ) -> None:
        self.message = message
        self.attempt = attempt
        self.received_at = received_at
        self.handler = handler
        self.variant = variant
        self.headers = headers
        self.can_send = can_send
        self.tied = False
        """With `latest(on_tie="refetch")`: another event of the same instant was applied, so ask the provider."""
        self.sent: list[Sent] = []
        self.is_over = False
        """Whether the handler's turn has ended: what it sends is on its way into the commit, and no more is taken."""
        self.hooks: list[Callable[[], Any]] = []
        self.hook_errors: Sequence[BaseException] = ()
        """What functions of the connection's own `on_commit` (Django's) have raised; they are called at the commit."""
        self._data_path = data_path
        self._payload: Any = None
        self._read = False

    @property
    def id(self) -> str:
        return self.message.event_id

    @property
    def type(self) -> str:
        return self.message.type

    @property
    def key(self) -> str | None:
        return self.message.key

    @property
    def seq(self) -> int | None:
        return self.message.seq

    @property
    def source(self) -> str:
        return self.message.source

    @property
    def account(self) -> str:
        return self.message.account

    @property
    def event_time(self) -> Instant | None:
        """When it happened, if the provider says so inside what is signed."""
        return self.message.event_time

    @property
    def raw(self) -> bytes:
        """The bytes of this event exactly as they were sent."""
        return self.message.body

    @property
    def payload(self) -> Any:
        """The whole body as JSON."""
        if not self._read:
            try:
                self._payload = read_json(self.message.body)
            except Unreadable as error:
                raise Reject(f"poison: {error}") from None
            self._read = True
        return self._payload

    @property
    def data(self) -> Any:
        """The event's own content: the part of the body that the provider's envelope wraps, or the whole body."""
        if not self._data_path:
            return self.payload
        inner = pick(self.payload, self._data_path)
        return self.payload if inner is None else inner

    def step_key(self, step: str) -> str:
        """A stable idempotency key for one step of this event: the same at every attempt and on every host."""
        parts = (self.source, self.account, self.id, self.variant, self.handler, step)
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        return f"hl_{digest[:40]}"

    def send(self, type: str, data: Any, *, key: str | None = None) -> None:
        """Publish an event of your own, in the same commit as everything else this handler writes."""
        if not self.can_send:
            raise UsageError("event.send needs an outbox of the same database: Inbox(…, outbox=Outbox(…))")
        if self.is_over:
            raise UsageError(
                "event.send was called after its handler had ended, so no commit would hold it: send it before, or"
                " publish it with an outbox of your own"
            )
        self.sent.append(Sent(type, data, key))

    def on_commit(self, fn: Callable[[], Any]) -> None:
        """Call *fn* after the commit, at most once: a crash in between loses it. Use `send` for what must happen."""
        self.hooks.append(fn)

    def __repr__(self) -> str:
        return f"<Event {self.source} {self.type} {self.id} attempt {self.attempt}>"
