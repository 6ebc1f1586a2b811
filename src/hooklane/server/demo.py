"""The demo: a producer of events, and receivers that can be broken and mended. Only `hooklane dev --demo` has it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooklane.core.endpoint import faults_of
from hooklane.core.signing import SECRET_BYTES, new_secret
from hooklane.errors import StoreError
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.ids import new_id
from hooklane.receiver.event import Event
from hooklane.receiver.inbox import Inbox
from hooklane.sender.draft import draft_of
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.services import Services
from hooklane.telemetry.events import Emit

MODES = ("ok", "down", "lost_ack")
KEYS = tuple(f"order:{number}" for number in range(1001, 1009))
SHOP, BILLING = "shop", "billing"
PACE_S = 0.2
WORK_S = (0.05, 0.7)
"""A receiver that takes its time, so that a person sees an event in flight."""
SAYS = {422: b"unknown sku", 502: b"bad gateway", 503: b"down for maintenance"}
"""What a broken receiver answers."""
STORY = ("order.created", "order.updated", "payment.settled", "order.shipped")


class DemoBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to change in the demo."""

    receiver: str | None = None
    broken: list[str] | None = None
    producing: bool | None = None


class Demo:
    """How the demo stands. *roll* is chance in [0, 1)."""

    def __init__(self, roll: random.Random | None = None) -> None:
        self.receiver = "ok"
        self.broken: tuple[str, ...] = ()
        self.producing = True
        self._random = roll or random.Random()

    @property
    def view(self) -> dict[str, Any]:
        return {"receiver": self.receiver, "broken": self.broken, "producing": self.producing, "keys": KEYS}

    # --- the receivers' bad days ---

    def gate(self, name: str, receiver: ASGIApp) -> ASGIApp:
        """*receiver* behind a door that can be broken: its trouble is what the demo is about."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            headers = dict(scope["headers"])
            key = headers.get(b"x-key", b"").decode("ascii", "replace")
            await asyncio.sleep(self._random.uniform(*WORK_S))
            status = self._trouble(name, key, is_first=headers.get(b"x-attempt") == b"1")
            if status is None:
                await receiver(scope, receive, send)
            else:
                if self.receiver == "lost_ack" and name == SHOP:
                    await receiver(scope, receive, _drop)
                await _reply(send, status)

        return guarded

    def _trouble(self, name: str, key: str, *, is_first: bool) -> int | None:
        """The status that stands in for the receiver's own, or None where it may answer itself.

        What fails by chance fails at the first attempt only: no event is given up unless a person broke something.
        """
        if name == BILLING:
            return 503 if is_first and self._random.random() < 0.25 else None  # it flaps by itself
        if key in self.broken:
            return 422
        if self.receiver == "down":
            return 503
        if self.receiver == "lost_ack":
            return 502 if is_first and self._random.random() < 0.5 else None
        return None

    # --- the producer ---

    async def produce(self, services: Services) -> None:
        """Publish a little story for each of a few keys, for ever."""
        step = 0
        while True:
            await asyncio.sleep(PACE_S * self._random.uniform(0.5, 1.5))
            if not self.producing:
                continue
            step += 1
            data = msgspec.json.encode({"order": step, "amount": self._random.randrange(100, 10_000)})
            draft = draft_of(STORY[step % len(STORY)], data, now=services.now(), key=self._random.choice(KEYS))
            try:
                await services.publisher.publish(draft)
            except StoreError:
                continue  # the demo of a full disk is not this demo's business

    # --- the calls ---

    async def show(self, call: Call) -> Response:
        return answer(self.view)

    async def change(self, call: Call) -> Response:
        body = call.read(DemoBody)
        if body.receiver is not None and body.receiver not in MODES:
            raise Problem("invalid_body", f"receiver must be one of {', '.join(MODES)}")
        self.receiver = body.receiver or self.receiver
        self.broken = self.broken if body.broken is None else tuple(body.broken)[:100]
        self.producing = self.producing if body.producing is None else body.producing
        return answer(self.view)

    def routes(self) -> Routes:
        routes = Routes("demo", "/api/v1/demo")
        routes.get("", "How the demo stands.")(self.show)
        routes.post("", "Break or mend the demo's receiver, or one key of it.", takes=DemoBody)(self.change)
        return routes


def receiver(where: str, secret: str, emit: Emit) -> Inbox:
    """The demo's receiver is our own: it verifies, counts once and applies in order."""
    inbox = Inbox(where, mode="inline", emit=emit)
    for name in (SHOP, BILLING):
        source = inbox.source(name, secrets=[secret], profile="hooklane")
        source.on("*", name="apply")(_apply)
    return inbox


def _apply(event: Event, tx: object) -> None:
    """The work of an application would stand here."""


async def kept_secret(services: Services) -> str:
    """The secret of the demo's endpoints: the same after a restart."""
    for endpoint in await services.store.endpoints():
        if endpoint.name == f"demo {SHOP}":
            return endpoint.keys[0].secret
    return new_secret(services.chance(SECRET_BYTES))


async def ensure_endpoints(services: Services, address: str, secret: str) -> None:
    """The demo's endpoints, pointing at where this process listens now."""
    now = services.now()
    existing = {endpoint.name: endpoint for endpoint in await services.store.endpoints()}
    for name, types in ((SHOP, ()), (BILLING, ("payment.*",))):
        wanted = _endpoint(name, types, f"{address}/in/{name}", secret)
        old = existing.get(wanted.name)
        if old is None:
            await services.store.save_endpoint(replace(wanted, id=new_id("ep", now), created_at=now), expect=None)
        else:
            new = replace(wanted, id=old.id, created_at=old.created_at, state=old.state)
            if new != old:
                await services.store.save_endpoint(new, expect=old)
    services.endpoints_changed()


def _endpoint(name: str, types: Sequence[str], url: str, secret: str) -> Endpoint:
    """Short waits and few attempts, so that a person sees an event die within seconds; patience with a busy machine."""
    endpoint = Endpoint(
        id="ep_demo",
        url=url,
        created_at=0,  # type: ignore[arg-type]
        name=f"demo {name}",
        types=tuple(types),
        keys=(SigningKey(secret),),
        attempts_max=4,
        backoff_ms=400,
        backoff_cap_ms=1_500,
        timeout_ms=15_000,
    )
    assert not faults_of(endpoint)
    return endpoint


async def _drop(message: Message) -> None:
    """Where an answer goes that gets lost on the way."""


async def _reply(send: Send, status: int) -> None:
    body = SAYS[status]
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
