"""Where deliveries go, and under which rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import Instant
from hooklane.model.event import DEFAULT_TENANT


class Order(StrEnum):
    """Which events wait for which: those of one key, none, or all of the endpoint."""

    KEY = "key"
    NONE = "none"
    GLOBAL = "global"


class OnDead(StrEnum):
    """What a dead head does to its lane."""

    BLOCK = "block"
    SKIP = "skip"


class Payload(StrEnum):
    """What the body of a delivery is: our envelope round the data, or the published bytes alone."""

    ENVELOPE = "envelope"
    RAW = "raw"


class Operational(StrEnum):
    """Whether an endpoint is sent operational events instead of what is published: those of its tenant, or of all."""

    NONE = "none"
    TENANT = "tenant"
    ALL = "all"


class EndpointState(StrEnum):
    """Whether an endpoint is sent to; only `active` is, nothing is lost in the others but by `cancelling`."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"  # it answered 410 Gone
    DRAINING = "draining"  # deleted; what is owed is still delivered
    CANCELLING = "cancelling"  # deleted; what is owed is cancelled; this is final

    @property
    def is_deleted(self) -> bool:
        """Whether it takes nothing new, and ends when nothing is owed any more."""
        return self in (EndpointState.DRAINING, EndpointState.CANCELLING)

    @property
    def is_held(self) -> bool:
        """Whether what it is owed waits for a person to resume it."""
        return self in (EndpointState.PAUSED, EndpointState.DISABLED)

    def to(self, state: EndpointState) -> EndpointState:
        """The state of an endpoint that was in this one when *state* is asked for: nothing cancelled is sent later."""
        return self if self is EndpointState.CANCELLING else state


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret that signs (`whsec_…`: HMAC, `whsk_…`: Ed25519), until *expires_at* when it was rotated out."""

    secret: str = field(repr=False)
    expires_at: Instant | None = None
    since: Instant | None = None
    """When it was set; None for one that is as old as its endpoint, or of a time when this was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A receiver. `order`, `payload` and `operational` never change; the rest applies to the next attempt."""

    id: str
    url: str
    created_at: Instant
    tenant: str = DEFAULT_TENANT
    name: str = ""
    types: tuple[str, ...] = ()
    """Patterns such as `order.*`; none means every type."""
    order: Order = Order.KEY
    on_dead: OnDead = OnDead.BLOCK
    payload: Payload = Payload.ENVELOPE
    operational: Operational = Operational.NONE
    """Never changes either."""
    state: EndpointState = EndpointState.ACTIVE
    suspended: bool = False
    """Whether its tenant is: nothing is sent then either, and all is kept. Set by the store with the tenant's state."""
    paused_by: str = ""
    paused_at: Instant | None = None
    """By whom and since when, while it is paused."""
    keys: tuple[SigningKey, ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ca_pem: str | None = None
    rate_limit: float | None = None
    """Deliveries a second, over all workers together."""
    in_flight_max: int = 64
    """At once, over all workers together; each has at least one."""
    timeout_ms: int = 20_000
    attempts_max: int = 35
    backoff_ms: int = 1_000
    backoff_cap_ms: int = 3_600_000
