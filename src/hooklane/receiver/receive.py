"""Receiving: what is asked of a request before it is stored, and what is answered after."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hooklane.core.admission.copies import Copy
from hooklane.core.verify.handshake import Handshake
from hooklane.errors import ProofUnavailable, StoreError, UsageError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.inbox import SETTLED, Known
from hooklane.model.jumps import set_back
from hooklane.model.message import Reply, Request, Verdict
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.failure import text_of
from hooklane.receiver.flows.inline import Outcome, apply, loudest
from hooklane.receiver.receipt import Receipt, answer, error_reply
from hooklane.receiver.recent import Recent
from hooklane.receiver.runner import Insert, Plan, Run
from hooklane.receiver.source import Source
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import SingleWriter
from hooklane.telemetry.events import Conflicted, Emit, Received, Refused, nowhere

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox


TELL_AGAIN_S = 60.0
_PLAIN = (Verdict.APPLIED, Verdict.STORED)
"""What nearly all receipts say, and what no person has to hear of."""

Admitted = tuple[Source, list[Arrival], Instant]
"""A request that was let in: whose it is, what was in it, and when it came."""


def source_in(url: str) -> str:
    """The name of a source as the last part of a URL's path: a letter may come percent-encoded, and one that is not
    ASCII always does."""
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return unquote(name) if "%" in name else name


def _as_it_came(request: Request) -> Request:
    """*request* in the shape that is expected, where an adapter gave a dict of headers, or text."""
    body: object = request.body
    if not isinstance(body, bytes | bytearray | memoryview):
        kind = type(body).__name__
        raise UsageError(f"the body of a Request is the raw bytes as they came, got {kind}: signatures are over bytes")
    return Request.of(request.method, request.url, request.headers, request.body)


class Receiving:
    """The receiving side of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._recent = Recent()
        self._told_at: dict[tuple[str, str], float] = {}
        """When a proof that failed was last told of, by source and reason."""
        self._single_writer = inbox.store if isinstance(inbox.store, SingleWriter) else None

    def open(self, request: Request, source: str | None) -> Reply | Admitted:
        if request.headers.__class__ is not tuple or request.body.__class__ is not bytes:
            request = _as_it_came(request)
        name = source if source is not None else source_in(request.url)
        found = self._inbox.sources.get(name)
        if found is None or len(request.body) > found.rules.body_bytes_max:
            return self.turn_away(name)
        is_post = request.method == "POST"
        if not is_post and not found.profile.handshakes:
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        now = self._inbox.clock()
        wait_s = found.has_no_room_for(now)
        if wait_s is not None:
            return self._refuse(name, "rate", 429, "too many requests", ("retry-after", str(wait_s)))
        try:
            opened = found.open_request(request, now)
        except ProofUnavailable as error:
            return self._unavailable(found, error.__cause__ or error, error.reason)
        except VerificationError as error:
            if is_post:
                return self._refuse(name, error.reason, 401, "unauthorized")
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        if isinstance(opened, Handshake):
            return self._shake(found, opened)
        if not is_post:
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        headers = found.kept_headers.of(request)
        return found, [Arrival.of(found, item, headers, now) for item in opened.items], now

    def turn_away(self, name: str) -> Reply:
        """The answer to a request for *name* whose body is too large, however little of it was read."""
        if name not in self._inbox.sources:
            return self._refuse(name[:64], "unknown_source", 404, "not found")
        return self._refuse(name, "too_large", 413, "too large")

    def break_off(self, name: str) -> Reply:
        """The answer to a request for *name* whose body did not come to its end, or not in one piece."""
        if name not in self._inbox.sources:
            return self._refuse(name[:64], "unknown_source", 404, "not found")
        return self._refuse(name, "broken_off", 400, "bad request")

    def _shake(self, source: Source, handshake: Handshake) -> Reply:
        """The answer to a greeting; a secret that came with it is kept first, for what is signed with it comes next."""
        if handshake.secret is not None:
            try:
                learned = source.learn(handshake.secret)
            except (
                Exception
            ) as error:  # the application's own function could not store it: the provider shall try again
                return self._unavailable(source, error)
            if not learned:
                return self._refuse(source.name, "mismatch", 401, "unauthorized")
        return handshake.reply

    def receive(self, source: Source, arrivals: list[Arrival], now: Instant) -> Plan[Reply]:
        began = time.perf_counter()
        try:
            receipts = self._seen(arrivals)
            if receipts is None and self._inbox.mode == "durable":
                receipts = yield Insert(arrivals)
            elif receipts is None:
                receipts = []
                for arrival in arrivals:
                    receipts.append((yield from self._apply(arrival)))
        except StoreError as error:
            self._inbox.retention.note_trouble()
            return self._unavailable(source, error)
        # Only now: a heartbeat that a store takes while it takes no events would say that it was up.
        if self._inbox.retention.is_silent(now):
            yield from self._inbox.retention.beat()
        looks = self._inbox.mode == "inline" and not self._inbox.store.capabilities.transactional
        if looks or set_back(self._inbox.clock.latest, self._inbox.clock()):
            # A claim is a lease there in inline mode too, and perhaps no worker runs that looks at the clock. Nor does
            # the worker of another process know what this one has said.
            with suppress(StoreError):  # the next request tries again
                yield from self._inbox.maintenance.keep_clock()
        return self._answer(source, arrivals, receipts, (time.perf_counter() - began) * 1000)

    def _seen(self, arrivals: list[Arrival]) -> list[Receipt] | None:
        """Receipts when all of it is known and done: with a single writer a duplicate need not wait for its turn.

        A look, when it may be worth it, and not the truth: what it does not find is decided by the insert.
        """
        store = self._single_writer
        if store is None:
            return None
        lately = self._recent.note([arrival.name for arrival in arrivals])
        # Parts that are quick run one after the other, and a look costs as much as one of them.
        shared = self._inbox.runner.shared_commits
        if not lately and (not store.is_busy or (shared is not None and shared.is_quick)):
            return None
        receipts: list[Receipt] = []
        for arrival, known in zip(arrivals, store.look([each.identity for each in arrivals]), strict=True):
            receipt = self._receipt_of_copy(arrival, known)
            if receipt is None:
                return None
            receipts.append(receipt)
        return receipts

    def _receipt_of_copy(self, arrival: Arrival, known: Known | None) -> Receipt | None:
        """The receipt where *known* is the same event, and nothing is left to do with it before it is answered."""
        if known is None or arrival.as_copy_of(known) is Copy.CONFLICT:
            return None
        if self._inbox.mode == "inline" and not all(each.status in SETTLED for each in known.handlings):
            return None
        return Receipt(message=arrival.message, verdict=Verdict.DUPLICATE, id=known.id)

    def _apply(self, arrival: Arrival) -> Plan[Receipt]:
        """Inline: one handler after the other, each in a transaction of its own."""
        worker = self._inbox.worker
        handlers = [] if arrival.standing()[1] is not None else arrival.handlers
        wanted = [handler for handler in handlers if handler.wants(arrival.message.type)]
        if not handlers:  # one that does not want it may still count it in its sequence
            (receipt,) = yield Insert([arrival])
            return receipt  # type: ignore[no-any-return]
        turns, paused_ms = worker.breakers.enter(wanted)
        if paused_ms:
            return (yield from self._postpone(arrival, paused_ms))
        outcomes: list[Outcome] = []
        try:
            for handler in handlers:
                event = handler.event(
                    arrival.message, arrival.received_at, can_send=self._inbox.can_send, headers=arrival.headers
                )
                began = time.perf_counter()
                outcome: Outcome = yield Run(
                    apply(self._inbox.context, arrival, handler, event, self._inbox.inline), handler.is_async
                )
                if outcome.settled is not None:
                    took_ms = (time.perf_counter() - began) * 1000
                    worker.note(handler, event, outcome.settled, took_ms, turns.pop(handler.name, 0))
                outcomes.append(outcome)
        finally:
            for handler in wanted:  # those that were not called after all, or whose end is not known
                if handler.name in turns:
                    worker.breakers.forgo(handler, 1, turns[handler.name])
        return loudest(outcomes) if len(outcomes) > 1 else outcomes[0].receipt

    def _postpone(self, arrival: Arrival, paused_ms: int) -> Plan[Receipt]:
        """A breaker is open: the sender comes back, or, if it gives up sooner, the event is kept for later. A copy of
        what is done needs no handler."""
        if arrival.entity is None:  # of an entity's states, only storing it tells which one it is
            (known,) = yield Run(transaction(self._inbox.store.known([arrival.identity])), reads=True)
            done = self._receipt_of_copy(arrival, known)
            if done is not None:
                return done
        budget = arrival.source.profile.budget
        if not budget.retries or budget.window_ms is None or budget.window_ms < paused_ms:
            (receipt,) = yield Insert([arrival])
            return receipt  # type: ignore[no-any-return]
        seconds = math.ceil(paused_ms / 1000)
        return Receipt(message=arrival.message, verdict=Verdict.BUSY, retry_after_s=seconds)

    def _answer(self, source: Source, arrivals: list[Arrival], receipts: list[Receipt], took_ms: float) -> Reply:
        for arrival, receipt in zip(arrivals, receipts, strict=True):
            tell = self._inbox.emit
            if receipt.verdict not in _PLAIN:
                if self._needs_a_person(arrival, receipt):
                    tell = self._inbox.tell
                elif receipt.verdict is Verdict.DUPLICATE:
                    self._inbox.maintenance.note_copy(receipt.id)
            if tell is not nowhere:
                self._tell(receipt, took_ms, tell)
        self._inbox.arrived.set()
        return answer(receipts, own_sender=source.profile.own_sender)

    def _needs_a_person(self, arrival: Arrival, receipt: Receipt) -> bool:
        """From the start, that is: a handler that rejects an event is told of as `Handled`."""
        if receipt.verdict is Verdict.REJECTED:
            return arrival.poison is not None or self._inbox.mode == "durable"
        return receipt.verdict is Verdict.CONFLICT

    def _tell(self, receipt: Receipt, took_ms: float, tell: Emit) -> None:
        message = receipt.message
        tell(
            Received(
                source=message.source,
                account=message.account,
                event_id=message.event_id,
                type=message.type,
                verdict=receipt.verdict,
                took_ms=took_ms,
                delivery_id=message.delivery_id,
                attempt=message.attempt,
            )
        )
        if receipt.verdict is Verdict.CONFLICT:
            self._inbox.emit(Conflicted(source=message.source, account=message.account, event_id=message.event_id))

    def _refuse(self, source: str, reason: str, status: int, error: str, *headers: tuple[str, str]) -> Reply:
        refused = Refused(source=source, reason=reason, status=status)
        if status == 401 and self._is_news(source, reason):
            self._inbox.tell(refused)
        else:
            self._inbox.emit(refused)
        return error_reply(status, error, Verdict.REJECTED, *headers)

    def _is_news(self, source: str, reason: str) -> bool:
        """Whether a proof that failed is told without any setting: a wrong secret is seen, and a flood fills no log."""
        now = time.monotonic()
        if now - self._told_at.get((source, reason), -TELL_AGAIN_S) < TELL_AGAIN_S:
            return False
        self._told_at[source, reason] = now
        return True

    def _unavailable(self, source: Source, error: BaseException, reason: str = "store_unavailable") -> Reply:
        told = text_of(error)
        self._inbox.tell(Refused(source=source.name, reason=reason, status=503, error=told))
        return error_reply(503, "try again", Verdict.BUSY, ("retry-after", "5"))
