"""Why does it wait? One sentence for a person, from what is stored and the time."""

from __future__ import annotations

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState

PAUSED = "the endpoint is paused; nothing is lost and all goes on after resume"


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
) -> str:
    """What the lane of *key* is waiting for."""
    behind = f" {_many(waiting, 'event')} behind it." if waiting else ""
    match state:
        case LaneState.IDLE:
            return f"Nothing waits on {key}: everything up to #{head - 1} is settled."
        case LaneState.PAUSED:
            return f"#{head} of {key} waits: {PAUSED}.{behind}"
        case LaneState.BLOCKED:
            return (
                f"#{head} of {key} is dead after {_many(attempts, 'try', 'tries')} (last: {reason or 'unknown'});"
                f" nothing moves on {key} until you replay or skip {dead_letter_id or f'#{head}'}.{behind}"
            )
        case LaneState.RETRYING:
            return (
                f"#{head} of {key} failed {_many(attempts, 'time')} of at most {attempts_max}"
                f" (last: {reason or 'unknown'}); the next try is {_due(next_at, now)}.{behind}"
            )
        case LaneState.ACTIVE:
            return f"#{head} of {key} is next to be delivered.{behind}"


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
) -> str:
    """What one delivery is waiting for; *lane* is the sentence of the lane in which it stands behind *head*."""
    name = "It" if seq is None else f"#{seq}"
    last = f"(last: {reason or 'unknown'})"
    match state:
        case DeliveryState.DELIVERED:
            return f"{name} does not wait: it was delivered{_after(attempts)}."
        case DeliveryState.SKIPPED:
            return f"{name} does not wait: it was skipped and will not be sent."
        case DeliveryState.CANCELLED:
            return f"{name} does not wait: it was cancelled with its endpoint."
        case _ if seq is not None and head is not None and lane is not None and head < seq:
            return f"#{seq} waits for #{head}: {lane}"
        case _ if lane is not None:
            return lane
        case DeliveryState.DEAD:
            return f"{name} is dead{_after(attempts)} {last}, until you replay or skip {dead_letter_id}."
        case DeliveryState.RETRYING:
            return f"{name} failed {_many(attempts, 'time')} {last}; the next try is {_due(next_at, now)}."
        case DeliveryState.QUEUED | DeliveryState.IN_FLIGHT:
            return f"{name} is about to be delivered."


def _due(at: Instant | None, now: Instant) -> str:
    if at is None or at <= now:
        return "due now"
    seconds = (at - now) / 1000
    return f"in {seconds:.1f} s" if seconds < 60 else f"in {int(seconds // 60)} min {int(seconds % 60)} s"


def _after(attempts: int) -> str:
    return f" after {_many(attempts, 'try', 'tries')}" if attempts > 1 else ""


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"
