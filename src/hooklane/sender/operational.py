"""Operational events: what an owner should hear of, as events to an endpoint that asked for them.

`hooklane.endpoint.disabled`, `.lane.blocked`, `.dead_letter.created`, `.breaker.opened`, `.breaker.closed` and
`.quota.reached`. They can never block themselves: an endpoint that takes them has no order, and nothing is told about
deliveries to it. They are told after the fact is durable; where a process dies in between, the fact stands and the
event is missing, so they are a call to look, not a record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hooklane.core.admission.rate import Bucket
from hooklane.core.fanout import matches
from hooklane.errors import StoreError
from hooklane.model.attempt import Dead, Delivered, Gone, Settlement
from hooklane.model.clock import Instant, rfc3339, wall_now
from hooklane.model.endpoint import Endpoint, OnDead, Operational
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.health import BreakerState, Health
from hooklane.model.ids import dead_letter_id
from hooklane.model.redelivery import is_redelivery
from hooklane.model.tenant import Tenant
from hooklane.sender.draft import ENDPOINTS_MAX, draft_of
from hooklane.store.outbox import Draft, Published, PublishReport
from hooklane.telemetry.deliveries import Happening, Recorded, Turned

log = logging.getLogger("hooklane.operational")

WAITING_MAX = 1_000
RATE, BURST = 5.0, 50.0
"""Of each type and tenant: a crowd of dead letters is told by its first ones, and by how many followed."""
KNOWN_S = 2.0
QUOTA_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Fact:
    """What happened, to whom, and at which endpoint."""

    type: str
    tenant: str
    data: Mapping[str, Any]
    endpoint_id: str = ""


@dataclass(slots=True)
class _Told:
    bucket: Bucket = field(default_factory=lambda: Bucket(RATE, BURST))
    suppressed: int = 0


class OperationalEvents:
    """Hears what happened (`listen`, `quota_reached`) and publishes it (`run`) where an endpoint wants it."""

    def __init__(
        self,
        publish: Callable[[Sequence[Draft]], Awaitable[PublishReport]],
        endpoints: Callable[[str], Awaitable[Sequence[Endpoint]]],
        feed: Callable[[PublishReport], None] | None,
    ) -> None:
        """*publish* and *endpoints* are the store's own verbs: no quota refuses these events."""
        self._publish = publish
        self._endpoints = endpoints
        self._feed = feed
        self._facts: deque[Fact] = deque(maxlen=WAITING_MAX)
        self._news = asyncio.Event()
        self._stopping = False
        self._known: dict[str, tuple[float, Sequence[Endpoint]]] = {}
        self._told: dict[tuple[str, str], _Told] = {}
        self._quotas: dict[tuple[str, str], float] = {}

    # hearing

    def listen(self, happening: Happening) -> None:
        """The relay's listener: of deliveries that arrived it does nothing."""
        match happening:
            case Recorded(settlements=settlements):
                for one in settlements:
                    if type(one.outcome) is not Delivered:
                        self._settled(one)
            case Turned(turns=turns):
                for endpoint, turn in turns:
                    self._turned(endpoint, turn)
            case _:
                pass  # the others are steps on the way

    def quota_reached(self, tenant: Tenant, quota: str) -> None:
        """A call was refused for want of a quota: told once a minute."""
        now = time.monotonic()
        if now >= self._quotas.get((tenant.id, quota), 0.0):
            self._quotas[tenant.id, quota] = now + QUOTA_EVERY_S
            self._add(
                Fact("hooklane.quota.reached", tenant.id, {"quota": quota, "limit": getattr(tenant.quota, quota)})
            )

    def _settled(self, one: Settlement) -> None:
        send, outcome = one.send, one.outcome
        endpoint, event = send.endpoint, send.event
        if endpoint.operational is not Operational.NONE or is_redelivery(send.lane_id):
            return
        if isinstance(outcome, Gone):
            self._add(_at(endpoint, "hooklane.endpoint.disabled", {"reason": outcome.reason, "event": event.id}))
        elif isinstance(outcome, Dead):
            about = {
                "dead_letter": dead_letter_id(event.id, event.created_at, endpoint.id),
                "event": event.id,
                "type": event.type,
                "key": send.key,
                "seq": None if send.is_loose else send.seq,
                "attempts": send.attempt,
                "reason": outcome.reason,
            }
            self._add(_at(endpoint, "hooklane.dead_letter.created", about))
            if not send.is_loose and endpoint.on_dead is OnDead.BLOCK:
                self._add(_at(endpoint, "hooklane.lane.blocked", about))

    def _turned(self, endpoint: Endpoint, turn: Health) -> None:
        if endpoint.operational is not Operational.NONE:
            return
        if turn.state is BreakerState.CLOSED:
            self._add(_at(endpoint, "hooklane.breaker.closed", {}))
        elif turn.state is BreakerState.OPEN and turn.probes <= 1:
            self._add(_at(endpoint, "hooklane.breaker.opened", {"next_probe_at": rfc3339(turn.until)}))

    def _add(self, fact: Fact) -> None:
        told = self._told.setdefault((fact.tenant, fact.type), _Told())
        if told.bucket.take(Instant(int(time.monotonic() * 1000))) is not None:
            told.suppressed += 1
            return
        suppressed, told.suppressed = told.suppressed, 0
        self._facts.append(Fact(fact.type, fact.tenant, {**fact.data, "suppressed": suppressed}, fact.endpoint_id))
        self._news.set()

    # telling

    async def run(self) -> None:
        """Publish what was heard, until `stop`."""
        while not self._stopping:
            await self._news.wait()
            self._news.clear()
            while self._facts:
                fact = self._facts.popleft()
                try:
                    await self._tell(fact)
                except StoreError as error:
                    log.warning("%s of tenant %s could not be told: %s", fact.type, fact.tenant, error)

    def stop(self) -> None:
        self._stopping = True
        self._news.set()

    async def _tell(self, fact: Fact) -> None:
        now = wall_now()
        data = msgspec.json.encode({"tenant": fact.tenant, **fact.data, "at": rfc3339(now)})
        for tenant, scopes in _audiences(fact.tenant):
            if not await self._tell_takers(tenant, scopes, fact.type, data, now):
                self._known.pop(tenant, None)  # an endpoint that it knows was deleted a moment ago
                await self._tell_takers(tenant, scopes, fact.type, data, now)

    async def _tell_takers(
        self, tenant: str, scopes: Sequence[Operational], type_: str, data: bytes, now: Instant
    ) -> bool:
        """Publish to those of *tenant* who take it; False where that was refused."""
        takers = [one for one in await self._of(tenant) if one.operational in scopes]
        wanted = [one.id for one in takers if matches(one.types, type_)][:ENDPOINTS_MAX]
        if not wanted:
            return True
        report = await self._publish([draft_of(type_, data, now=now, endpoints=wanted, tenant=tenant)])
        if self._feed is not None:
            self._feed(report)
        return isinstance(report.results[0], Published)

    async def _of(self, tenant: str) -> Sequence[Endpoint]:
        """The endpoints of a tenant that take operational events, as of a moment ago."""
        known = self._known.get(tenant)
        if known is None or time.monotonic() > known[0]:
            found = await self._endpoints(tenant)
            kept = [one for one in found if one.operational is not Operational.NONE and not one.state.is_deleted]
            if len(self._known) > WAITING_MAX:
                self._known.clear()
            known = self._known[tenant] = (time.monotonic() + KNOWN_S, kept)
        return known[1]


def _audiences(tenant: str) -> list[tuple[str, tuple[Operational, ...]]]:
    """Where to look for endpoints: the tenant's own, and those of the operator, which are of the tenant `default`."""
    if tenant == DEFAULT_TENANT:
        return [(DEFAULT_TENANT, (Operational.TENANT, Operational.ALL))]
    return [(tenant, (Operational.TENANT,)), (DEFAULT_TENANT, (Operational.ALL,))]


def _at(endpoint: Endpoint, type_: str, data: Mapping[str, Any]) -> Fact:
    return Fact(type_, endpoint.tenant, {"endpoint": endpoint.id, "endpoint_name": endpoint.name, **data}, endpoint.id)
