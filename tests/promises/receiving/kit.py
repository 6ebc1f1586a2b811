"""What the tests of the receiver share: requests signed as our own sender and others sign them, and a clock by hand."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hooklane.aws_lambda import handler as lambda_handler
from hooklane.core.signing import Signer, new_secret
from hooklane.model.clock import Instant, rfc3339, wall_now
from hooklane.model.endpoint import SigningKey
from hooklane.model.inbox import Heartbeat
from hooklane.model.message import Reply, Request
from hooklane.receiver import Inbox
from hooklane.receiver.runner import Run
from hooklane.receiver.steps import transaction

SECRET = new_secret(b"0123456789abcdef0123456789abcdef")
DAY_MS = 86_400_000
_SIGNER = Signer([SigningKey(SECRET)])


@dataclass
class HandClock:
    """A clock that moves when it is told to."""

    now: Instant = field(default_factory=wall_now)

    def __call__(self) -> Instant:
        return self.now

    def pass_ms(self, ms: int) -> None:
        self.now = Instant(self.now + ms)


def signed(
    event_id: str = "evt_1",
    *,
    type: str = "order.created",
    data: Any = None,
    key: str | None = None,
    seq: int | None = None,
    prev_seq: int | None = None,
    at: Instant | None = None,
    source: str = "hooklane",
    timestamp: str | None = None,
) -> Request:
    """A delivery of our own sender, freshly signed."""
    now = wall_now() if at is None else at
    envelope: dict[str, Any] = {"id": event_id, "type": type, "timestamp": timestamp or rfc3339(Instant(0))}
    if key is not None:
        envelope |= {"key": key, "seq": seq, "prev_seq": seq - 1 if prev_seq is None and seq else prev_seq}
    return signed_bytes(event_id, json.dumps(envelope | {"data": data or {"n": 1}}).encode(), at=now, source=source)


def signed_bytes(event_id: str, body: bytes, *, at: Instant | None = None, source: str = "hooklane") -> Request:
    """Any bytes, signed as Standard Webhooks."""
    seconds = (wall_now() if at is None else at) // 1000
    headers = {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": _SIGNER.sign(event_id, seconds, body).decode(),
    }
    return Request.of("POST", f"http://receiver.test/webhooks/{source}", headers, body)


def github(body: Any, *, delivery: str, event: str = "push", secret: str = "hush-hush-hush") -> Request:
    """A request as GitHub signs it: the body only, the id in a header that anyone can change."""
    raw = json.dumps(body).encode()
    digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    headers = {
        "x-github-delivery": delivery,
        "x-github-event": event,
        "x-hub-signature-256": f"sha256={digest}",
        "content-type": "application/json",
    }
    return Request.of("POST", "http://receiver.test/webhooks/github", headers, raw)


def through_lambda(inbox: Inbox) -> Callable[[Request], Reply]:
    """Requests to *inbox* as a function URL of AWS Lambda hands them on."""
    handle = lambda_handler(inbox)

    def receive(request: Request) -> Reply:
        event = {
            "version": "2.0",
            "rawPath": "/webhooks/hooklane",
            "requestContext": {"http": {"method": "POST", "path": "/webhooks/hooklane"}},
            "headers": dict(request.headers),
            "body": request.body.decode(),
        }
        answer = handle(event, None)
        return Reply(answer["statusCode"], answer["body"].encode(), tuple(answer["headers"].items()))

    return receive


def header(reply: Reply, name: str) -> str | None:
    return next((value for other, value in reply.headers if other == name), None)


def outcome(reply: Reply) -> str | None:
    return header(reply, "hooklane-outcome")


def own_source(inbox: Inbox, **options: Any) -> Any:
    return inbox.source("hooklane", [SECRET], **options)


def statuses(inbox: Inbox, **search: Any) -> list[str]:
    return [str(row.overall) for row in inbox.rows(**search)]


def beat_through(inbox: Inbox, clock: HandClock, *, days: int) -> None:
    """Let days pass in which the inbox was alive: its heartbeat follows without a gap."""

    def plan() -> Any:
        yield Run(transaction(inbox.store.beat(Heartbeat(Instant(clock.now)))))

    clock.pass_ms(days * DAY_MS)
    inbox.runner.run(plan())
