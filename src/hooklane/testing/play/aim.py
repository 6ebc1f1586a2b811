"""The copies of a trace, sent to a real receiver over real HTTP: signed now, to this machine or an allowed network."""

from __future__ import annotations

import asyncio
import secrets as chance
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

import msgspec

from hooklane.core.signing import Signer
from hooklane.core.wire import body_of, headers_of
from hooklane.errors import UsageError
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Payload, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Failure, Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport import Transport
from hooklane.testing.play.arrivals import Arrival, arrivals
from hooklane.testing.play.trace import Trace

TIMEOUT_MS = 5_000
PACE_S_MAX = 0.05
"""The longest pause between two copies: what took a minute in the simulation is over in seconds."""


class OnlyAllowed(EgressGuard):
    """Lets nothing through but the operator's networks: a playground has no business with the rest of the world."""

    def _may_reach(self, address: IPv4Address | IPv6Address, secure: bool) -> bool:
        return address in self._allow


class AimedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What the receiver answered to one copy."""

    key: str
    seq: int
    try_: int = msgspec.field(name="try")
    status: int | None
    said: str | None
    """The word of `hooklane-outcome`; None from a receiver that is not one of ours."""
    failure: str | None
    ack_lost: bool
    """In the scenario the sender never learnt of this answer."""
    took_ms: float


class Aimed(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario against a real receiver."""

    scenario: str
    seed: int
    url: str
    copies: Sequence[AimedCopy]
    accepted: int
    """Events of which a copy was answered with 2xx."""
    events: int
    applied_twice: int | None
    """Events that the receiver says it applied more than once; None where it says nothing of the kind."""


async def aim(trace: Trace, url: str, secrets: Sequence[str], allow: Sequence[str]) -> Aimed:
    """Send the copies of *trace* to *url*, in its order, each signed with *secrets* when it leaves."""
    transport = Transport(OnlyAllowed(allow=allow))
    try:
        transport.check(url)
        shot = _Shot(transport, Target("aimed", url, TIMEOUT_MS), Signer([SigningKey(secret) for secret in secrets]))
        copies: list[AimedCopy] = []
        at = 0.0
        for group in arrivals(trace):
            await asyncio.sleep(min(PACE_S_MAX, max(0.0, (group[0].t - at) / 1000)))
            at = group[0].t
            copies += await asyncio.gather(*(shot.post(one) for one in group))
            if all(one.failure is not None for one in copies):
                raise UsageError(_unreachable(url, copies[-1].failure or ""))
    finally:
        await transport.close(0)
    return _aimed(trace, url, copies)


def _unreachable(url: str, failure: str) -> str:
    if failure == Failure.TARGET_NOT_ALLOWED:
        return "the playground sends only to this machine and to networks of HOOKLANE_EGRESS_ALLOW"
    return f"cannot reach {url.partition('?')[0]}: {failure}"


class _Shot:
    """Events of this run only: another run is other events to the receiver, under other keys."""

    def __init__(self, transport: Transport, target: Target, signer: Signer) -> None:
        self._transport = transport
        self._target = target
        self._signer = signer
        self._run = chance.token_hex(4)
        self._began = wall_now()

    async def post(self, one: Arrival) -> AimedCopy:
        now, key = wall_now(), f"play-{self._run}:{one.key}"
        event = Event(f"evt_play_{self._run}_{one.key}_{one.seq}", one.type, key, _json(one.data), self._began)
        body = body_of(event, Payload.ENVELOPE, key=key, seq=one.seq, prev_seq=one.seq - 1)
        headers = headers_of(
            event,
            key=key,
            seq=one.seq,
            prev_seq=one.seq - 1,
            attempt=one.attempt,
            now=now,
            signature=self._signer.sign(event.id, now // 1000, body, now),
        )
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._transport.send(self._target, headers, body, done.set_result)
        result = await done
        answer = result if isinstance(result, Answer) else None
        return AimedCopy(
            key=one.key,
            seq=one.seq,
            try_=one.attempt,
            status=answer.status if answer else None,
            said=answer.outcome if answer else None,
            failure=None if isinstance(result, Answer) else str(result.failure),
            ack_lost=one.ack_lost,
            took_ms=round(result.timings.total_ms, 1),
        )


def _aimed(trace: Trace, url: str, copies: Sequence[AimedCopy]) -> Aimed:
    accepted = {(one.key, one.seq) for one in copies if one.status is not None and 200 <= one.status < 300}
    applied = [(one.key, one.seq) for one in copies if one.said == "applied"]
    says = any(one.said is not None for one in copies)
    return Aimed(
        scenario=trace.scenario,
        seed=trace.seed,
        url=url,
        copies=copies,
        accepted=len(accepted),
        events=len({(one.key, one.seq) for one in copies}),
        applied_twice=len({one for one in applied if applied.count(one) > 1}) if says else None,
    )


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
