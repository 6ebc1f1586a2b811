"""Providers of data about the world: cars, matches, videos, content."""

from __future__ import annotations

from typing import Any

from hooklane.core.verify.handshake import Greeting, HmacOf, IfBody
from hooklane.core.verify.places import InBody, dig
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Ordering, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit, read_instant
from hooklane.core.verify.scheme import Header, Signed, stamped_pairs


def newest_signal(event: Any) -> int | None:
    """The newest time at which one of the vehicle's signals was measured, in milliseconds.

    `meta.deliveredAt` is the time of the attempt: a late retry of old data has a newer one than what followed it.
    """
    signals = dig(event, "data.signals")
    times: list[int] = []
    for signal in signals if isinstance(signals, list) else []:
        for name in ("oemUpdatedAt", "fetchedAt", "retrievedAt"):
            value = dig(signal, f"meta.{name}")
            at = read_instant(value, Unit.ISO) or read_instant(value, Unit.MILLISECONDS)
            if at is not None:
                times.append(at)
                break
    return max(times, default=None)


SMARTCAR = Profile(
    name="smartcar",
    title="Smartcar",
    schemes=(Signed(source=Header("sc-signature")),),
    id=(InBody("eventId"),),
    type=(InBody("eventType"), InBody("eventName")),
    key=(InBody("data.vehicle.id"), InBody("vehicleId"), InBody("data.vehicleId")),
    event_time=(When(newest_signal, Unit.MILLISECONDS),),
    delivery_id=(InBody("meta.deliveryId"),),
    volatile=("meta.deliveryId", "meta.deliveredAt"),
    data="data",
    handshakes=(
        Greeting(IfBody("eventType", "VERIFY"), HmacOf("data.challenge", "challenge")),
        Greeting(IfBody("eventName", "verify"), HmacOf("payload.challenge", "challenge")),
    ),
    budget=Budget(timeout_ms=15_000, window_ms=175_000),
    notes="The secret is the application management token. After three retries in 2 min 55 s an event is dropped.",
)

SPORTSSTACK = Profile(
    name="sportsstack",
    title="Sports Stack",
    schemes=(Signed(source=Header("x-sportsstack-signature")),),
    id=(InBody("event.hash"), InBody("hash")),
    type=(InBody("event.type"), InBody("type")),
    key=(InBody("event.common_model_id"), InBody("common_model_id")),
    split=(Split("events"), Split("")),
    data="event",
    budget=Budget(timeout_ms=5_000, window_ms=None),
    # The hash fingerprints a state. Odds of 1.90, 1.95 and 1.90 again send the first hash twice.
    dedup=Dedup.STATE_TOKEN,
    order=Ordering.REFETCH,
)

MUX = Profile(
    name="mux",
    title="Mux",
    schemes=(stamped_pairs("mux-signature"),),
    id=(InBody("id"),),
    type=(InBody("type"),),
    key=(InBody("object.id"),),
    event_time=(When(InBody("created_at")),),
    volatile=("attempts",),
    data="data",
    budget=Budget(timeout_ms=5_000, window_ms=24 * HOURS_MS),
)

CLOUDFLARE_STREAM = Profile(
    name="cloudflare_stream",
    title="Cloudflare Stream",
    schemes=(stamped_pairs("webhook-signature", "sig1", stamp="time"),),
    type=(InBody("status.state"),),
    key=(InBody("uid"),),
    event_time=(When(InBody("modified")),),
    dedup=Dedup.DERIVED,
)

SANITY = Profile(
    name="sanity",
    title="Sanity",
    schemes=(
        # Retries keep the signature of the first attempt, so its time cannot bound them.
        stamped_pairs(
            "sanity-webhook-signature", unit=Unit.MILLISECONDS, tolerance_ms=None, encoding=Encoding.BASE64URL
        ),
    ),
    type=(InBody("_type"),),
    key=(InBody("_id"),),
    event_time=(When(InBody("_updatedAt")),),
    budget=Budget(timeout_ms=30_000, window_ms=None),
    dedup=Dedup.DERIVED,
)

PROFILES = (SMARTCAR, SPORTSSTACK, MUX, CLOUDFLARE_STREAM, SANITY)
