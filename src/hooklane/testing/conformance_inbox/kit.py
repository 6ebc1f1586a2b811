"""Messages, rows and a crowd to try a store of the inbox with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from hooklane.model.clock import START, Instant, wall_now
from hooklane.model.inbox import Claimed, HandlingFailure, Identity, NewHandling, NewRow, RowId, Track
from hooklane.model.message import Message, Status
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow, InboxStore
from hooklane.testing import crowd

T = TypeVar("T")

SOURCE, HANDLER = "shop", "book"
WORK = [(SOURCE, HANDLER)]
TRACK = Track(SOURCE, "default", HANDLER, "order:7")
OTHER = Track(SOURCE, "default", HANDLER, "order:8")
LEASE_MS = 60_000
ONE = Instant(1)


def message(event_id: str = "e1", **changes: Any) -> Message:
    values: dict[str, Any] = {
        "source": SOURCE,
        "event_id": event_id,
        "type": "order.created",
        "body": b'{"a": "\\u0000"}',
        "fingerprint": b"f1",
    }
    return Message(**values | changes)


def row(event_id: str = "e1", *handlings: NewHandling, now: Instant = ONE, **changes: Any) -> NewRow:
    own = {name: changes.pop(name) for name in ("variant", "status", "reason", "headers") if name in changes}
    return NewRow(message=message(event_id, **changes), received_at=now, handlings=handlings, **own)


def owed(**changes: Any) -> NewHandling:
    return NewHandling(**{"handler": HANDLER} | changes)


def identity(event_id: str = "e1", **changes: str) -> Identity:
    return Identity(**{"source": SOURCE, "account": "default", "event_id": event_id} | changes)


class InboxKit:
    """What all promises are tried with."""

    def run(self, store: InboxStore, flow: Flow[T]) -> T:
        """Run *flow* in one committed transaction."""
        return Driver(store).run(transaction(flow))

    def insert(self, store: InboxStore, *rows: NewRow) -> list[RowId | None]:
        return self.run(store, store.insert(list(rows)))

    def claim(self, store: InboxStore, *, limit: int = 10, lease_ms: int = LEASE_MS, **changes: Any) -> list[Claimed]:
        options: dict[str, Any] = {"expired": False, "now": wall_now()} | changes
        return self.run(store, store.claim(WORK, lease_ms=lease_ms, limit=limit, **options))

    def status(self, store: InboxStore, event_id: str = "e1") -> Status:
        (known,) = self.run(store, store.known([identity(event_id)]))
        assert known is not None
        handling = known.of(HANDLER)
        return known.status if handling is None else handling.status


def held(seq: int, due_at: Instant = START) -> NewHandling:
    return owed(status=Status.HELD, key=TRACK.key, seq=seq, prev_seq=seq - 1, due_at=due_at)


def failing(
    store: InboxStore,
    claimed: Claimed,
    *,
    status: Status = Status.FAILED,
    due_at: Instant = START,
    error: str = "no bank",
) -> Flow[bool]:
    failure = HandlingFailure(status=status, due_at=due_at, now=wall_now(), error=error, traceback="Traceback …")
    return store.fail(claimed.id, HANDLER, claimed.fence, failure)


def then_fail(flow: Flow[Any]) -> Flow[None]:
    yield from flow
    raise ZeroDivisionError


def perform(session: Any, flow: Flow[T]) -> T:
    """Run *flow* in a transaction that stays open."""
    try:
        step = next(flow)
        while True:
            step = flow.send(session.perform(step))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def together(number: int, work: Callable[[int], T]) -> list[T]:
    """Call *work* in so many threads that start at the same moment; their results."""
    return crowd.together([partial(work, index) for index in range(number)])
