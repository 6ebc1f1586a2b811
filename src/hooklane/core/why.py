"""Why does it wait? One sentence for any event or lane, from what is stored and the time."""

from __future__ import annotations

from hooklane.model.attempt import SEQ_GAP
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.size import counted

SAID_CHARS_MAX = 80

_HELD = {
    EndpointState.PAUSED: "the endpoint is paused; nothing is lost, and all goes on when it is resumed",
    EndpointState.DISABLED: "the endpoint answered 410 Gone and is disabled; nothing is lost, and all goes on when it"
    " is resumed",
}


def why_lane(
    *,
    state: LaneState,
    key: str,
    head: int,
    waiting: int,
    attempts: int,
    attempts_max: int,
    next_at: Instant | None,
    reason: str | None,
    dead_letter_id: str | None,
    now: Instant,
    endpoint_state: EndpointState = EndpointState.PAUSED,
    suspended: bool = False,
    said: str | None = None,
    health: Health | None = None,
) -> str:
    """What the lane of *key* is waiting for; *said* is what the endpoint answered last, in its own words."""
    behind = f"; {counted(waiting, 'event')} behind it {'waits' if waiting == 1 else 'wait'} as well" if waiting else ""
    match state:
        case LaneState.IDLE:
            return f"Nothing waits on {key}: everything up to #{head - 1} is settled."
        case LaneState.PAUSED:
            return f"#{head} of {key} waits: {_held(endpoint_state, suspended)}{behind}."
        case LaneState.BLOCKED:
            letter = f" ({dead_letter_id})" if dead_letter_id else ""
            return (
                f"#{head} of {key} died after {counted(attempts, 'try', 'tries')} (last: {_last(reason, said)});"
                f" nothing moves on {key} until you replay or skip #{head}{letter}{behind}."
            )
        case LaneState.RETRYING | LaneState.ACTIVE if _is_left_alone(health) and (next_at is None or next_at <= now):
            return f"#{head} of {key} waits: {_left_alone(health, now)}{behind}."
        case LaneState.RETRYING:
            return (
                f"#{head} of {key} failed {counted(attempts, 'time')} of at most {attempts_max}"
                f" (last: {_last(reason, said)}); the next try is {_due(next_at, now)}{behind}."
            )
        case LaneState.ACTIVE:
            return f"#{head} of {key} is next to be delivered{behind}."


def why_delivery(
    *,
    state: DeliveryState,
    seq: int | None,
    lane: str | None,
    head: int | None,
    attempts: int,
    reason: str | None,
    next_at: Instant | None,
    dead_letter_id: str | None,
    now: Instant,
    endpoint_state: EndpointState = EndpointState.ACTIVE,
    suspended: bool = False,
    said: str | None = None,
    health: Health | None = None,
) -> str:
    """What one delivery is waiting for; *lane* is the sentence of the lane in which it stands behind *head*."""
    name = "It" if seq is None else f"#{seq}"
    match state:
        case DeliveryState.DELIVERED:
            return f"{name} does not wait: it was delivered{_after(attempts)}."
        case DeliveryState.SKIPPED:
            note = f" ({_clip(reason)})" if reason else ""
            return f"{name} does not wait: it was skipped{note} and will not be sent, unless you replay it."
        case DeliveryState.CANCELLED:
            return f"{name} does not wait: it was cancelled with its endpoint."
        case _ if seq is not None and head is not None and lane is not None and head < seq:
            return f"#{seq} waits for #{head}; {lane}"
        case _ if lane is not None:
            return lane
        case DeliveryState.DEAD:
            return (
                f"{name} died{_after(attempts)} (last: {_last(reason, said)}); it is not tried again until you"
                f" replay or skip {dead_letter_id}."
            )
        case _ if endpoint_state in _HELD or suspended:
            return f"{name} waits: {_held(endpoint_state, suspended)}."
        case _ if _is_left_alone(health) and (next_at is None or next_at <= now):
            return f"{name} waits: {_left_alone(health, now)}."
        case DeliveryState.RETRYING:
            return (
                f"{name} failed {counted(attempts, 'time')} (last: {_last(reason, said)}); the next try is"
                f" {_due(next_at, now)}."
            )
        case DeliveryState.QUEUED | DeliveryState.IN_FLIGHT:
            return f"{name} is about to be delivered."


def _held(endpoint_state: EndpointState, suspended: bool) -> str:
    if suspended:
        return "the tenant is suspended; nothing is lost, and all goes on when it is resumed"
    return _HELD.get(endpoint_state, _HELD[EndpointState.PAUSED])


def _is_left_alone(health: Health | None) -> bool:
    return health is not None and health.state in (BreakerState.OPEN, BreakerState.PROBING)


def _left_alone(health: Health | None, now: Instant) -> str:
    if health is None or health.state is BreakerState.PROBING:
        probe = "is under way"
    else:
        probe = f"is {_due(health.until, now)}"
    return f"the endpoint keeps failing and is left alone, which uses up no tries; the next probe {probe}"


def _last(reason: str | None, said: str | None) -> str:
    words = _clip(said) if said else ""
    reason = f"{SEQ_GAP}, the receiver lacks what came before" if reason == SEQ_GAP else reason or "unknown"
    return f"{reason} {words!r}" if words else reason


def _clip(text: str) -> str:
    """An excerpt of one line: what an endpoint or a person wrote may hold anything."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= SAID_CHARS_MAX else line[: SAID_CHARS_MAX - 1] + "…"


def _due(at: Instant | None, now: Instant) -> str:
    if at is None or at <= now:
        return "due now"
    seconds = (at - now) / 1000
    if seconds < 60:
        return f"in {seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"in {minutes} min {int(seconds % 60)} s" if minutes < 60 else f"in {minutes // 60} h {minutes % 60} min"


def _after(attempts: int) -> str:
    return f" after {counted(attempts, 'try', 'tries')}" if attempts else ""
