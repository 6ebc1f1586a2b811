"""A claim by hand: the application's own block is the handler."""

from __future__ import annotations

import json
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hooklane.core.profiles import find_profile
from hooklane.core.verify.messages import fingerprint
from hooklane.core.verify.profile import Dedup
from hooklane.errors import UsageError
from hooklane.model.message import Message, Verdict
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.drivers import AsyncDriver, Driver, blame_handler
from hooklane.receiver.event import Event
from hooklane.receiver.flows.inline import Outcome, apply
from hooklane.receiver.order import NoOrder
from hooklane.receiver.source import Handler, Rules, Source
from hooklane.receiver.steps import HandlerFailed

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

EVENT_ID_CHARS_MAX = 255


class Claim:
    """Claims one event for the block that follows, and completes it in the same commit.

        with inbox.claim("smartcar", event_id, payload=body) as claim:
            if claim.fresh:
                apply(claim.tx)

    *fresh*: this block, and no other copy, may apply it. The block's end commits, and raises where the commit fails:
    nothing was kept then, and the event can be claimed again. An exception rolls everything back, is recorded with the
    event, and goes on to the caller. *verdict* says what it was otherwise: `duplicate`, `conflict`, or `busy` when
    another copy is at work right now.
    """

    def __init__(
        self, inbox: Inbox, source: str, event_id: str, payload: Any, *, type: str, account: str, name: str
    ) -> None:
        if not event_id or len(event_id) > EVENT_ID_CHARS_MAX or not event_id.isprintable():
            raise UsageError(f"an event id has 1-{EVENT_ID_CHARS_MAX} printable characters, got {event_id!r}")
        self._inbox = inbox
        self._source = inbox.sources.get(source) or _bare_source(source)
        if source not in inbox.sources:
            inbox.retention.note_claimed_source(source)
        body = _bytes_of(payload)
        message = Message(
            source=source,
            event_id=event_id,
            type=type,
            body=body,
            account=account,
            fingerprint=fingerprint(self._source.profile, body) if body else b"",
        )
        handler = self._handler(name)
        arrival = Arrival(_with_one_handler(self._source, handler), message, (), inbox.clock())
        self.event = handler.event(message, arrival.received_at, can_send=inbox.can_send)
        self._flow = apply(inbox.context, arrival, handler, self.event, inbox.inline, is_over=lambda: self.fresh)
        self._driver: Driver | None = None
        self._adriver: AsyncDriver | None = None
        self.fresh = False
        self.tx: Any = None
        self.verdict: Verdict | None = None

    def _handler(self, name: str) -> Handler:
        rules = self._source.rules
        return Handler(
            name=name,
            source=self._source.name,
            fn=_not_to_be_called,
            patterns=(),
            order=NoOrder(),
            retry=rules.retry,
            breaker=None,
            data_path=self._source.profile.data,
        )

    def __enter__(self) -> Claim:
        self._driver = self._inbox.runner.driver()
        self._inbox.runner.run(self._inbox.retention.beat())
        self._begin(*self._driver.resume(self._flow, None, None, pause=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.fresh:
            return
        assert self._driver is not None
        self.tx = None
        misuse: BaseException | None = None
        try:
            self._driver.taking_back(error)
        except BaseException as raised:
            misuse = raised
        _, outcome = self._driver.resume(self._flow, None, misuse or _blamed(error), pause=False)
        self._end(outcome, misuse, error)

    async def __aenter__(self) -> Claim:
        self._adriver = self._inbox.runner.adriver()
        await self._inbox.runner.arun(self._inbox.retention.beat())
        self._begin(*await self._adriver.resume(self._flow, None, None, pause=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.fresh:
            return
        assert self._adriver is not None
        self.tx = None
        misuse: BaseException | None = None
        try:
            await self._adriver.taking_back(error)
        except BaseException as raised:
            misuse = raised
        _, outcome = await self._adriver.resume(self._flow, None, misuse or _blamed(error), pause=False)
        self._end(outcome, misuse, error)

    def _begin(self, ended: bool, value: Any) -> None:
        if ended:
            self.verdict = value.receipt.verdict
        else:
            self.fresh, self.tx = True, value

    def _end(self, outcome: Outcome, misuse: BaseException | None, raised: BaseException | None) -> None:
        self.verdict = outcome.receipt.verdict
        if misuse is not None:
            raise misuse
        if outcome.settled is not None:
            self._inbox.worker.tell_hooks(self.event, outcome.settled)
        if raised is None and outcome.error is not None:
            raise outcome.error  # the commit was refused: without an error the caller would take it for done


def _blamed(error: BaseException | None) -> BaseException | None:
    """*error* of a block, so that none is taken for one of the inbox's own store."""
    if error is not None:
        try:
            blame_handler(error)
        except HandlerFailed as blamed:
            return blamed
    return error


def _not_to_be_called(event: Event, tx: Any) -> None:
    raise UsageError(
        "this event was claimed with inbox.claim(…), so no handler applies it: let the block that claimed it run again"
    )


def _bytes_of(payload: Any) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    try:
        return json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    except TypeError as error:
        raise UsageError(f"payload must be bytes, text, or a value that JSON can hold: {error}") from None


def _bare_source(name: str) -> Source:
    """A source that receives nothing over HTTP, only claims."""
    return Source(
        name,
        profile=find_profile("standard_webhooks"),
        keys=None,
        order=NoOrder(),
        rules=Rules(dedup=Dedup.EVENT_ID),
    )


def _with_one_handler(source: Source, handler: Handler) -> Source:
    alone = Source(source.name, profile=source.profile, keys=None, order=NoOrder(), rules=source.rules)
    alone.handlers[handler.name] = handler
    return alone
