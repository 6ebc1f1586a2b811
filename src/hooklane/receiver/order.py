"""In which order does a handler see the events of one key? Values for `source(order=…)` and `on(order=…)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hooklane.core.admission.freshness import RANKS, SKEW_MS, Pick, microseconds, pick, tie
from hooklane.core.admission.turns import OnDead, OnGap
from hooklane.core.verify.messages import storable
from hooklane.core.verify.profile import Ordering
from hooklane.errors import ConfigError, Reject
from hooklane.model.message import Message
from hooklane.receiver.fields import apply_latest
from hooklane.receiver.validate.values import is_whole

Document = Callable[[], Any]
"""Gives the JSON of a message, read once when it is needed."""


@dataclass(frozen=True, slots=True)
class NoOrder:
    """Every event is applied when it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """An event of an entity is applied only if it is newer than what was applied: last writer wins by event time.

    *key* and *at* say where the entity's name and the event's time are (a path or a callable; the profile's own by
    default). Ties go by *version*, then by the rank of the type in *ranks*, then by event id; with `on_tie="refetch"`
    the handler runs with `event.tied` set, to ask the provider. A time more than *skew_ms* ahead is quarantined.
    """

    key: Pick | None = None
    at: Pick | None = None
    version: Pick | None = None
    ranks: Sequence[str] = RANKS
    on_tie: Literal["id", "refetch"] = "id"
    skew_ms: int = SKEW_MS

    apply = apply_latest

    def __post_init__(self) -> None:
        problems = []
        if self.on_tie not in ("id", "refetch"):
            problems.append(f'latest: on_tie must be "id" or "refetch", got {self.on_tie!r}')
        if not is_whole(self.skew_ms, least=0):
            problems.append(f"latest: skew_ms must be a whole number of at least 0, got {self.skew_ms!r}")
        if problems:
            raise ConfigError(problems)

    def mark(self, message: Message, document: Document) -> tuple[str, int, str]:
        """The entity, the time in microseconds and the tie breaker; `Reject` where the event does not say them."""
        key = key_of(self.key, message, document)
        if key is None:
            raise Reject(f"latest: the event has no key at {self.key or 'the place that the profile names'}")
        if self.at is None:
            at = None if message.event_time is None else message.event_time * 1000
        else:
            try:
                at = microseconds(pick(document(), self.at))
            except ValueError as error:
                raise Reject(f"latest: the event has no time at {self.at}: {error}") from None
        if at is None:
            raise Reject("latest: the event has no time that its provider signs; say where with at=…")
        version = None if self.version is None else pick(document(), self.version)
        return key, at, tie(version=version, type=message.type, ranks=self.ranks, event_id=message.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSequence:
    """Events of a key are applied one at a time in the order of their seq, each after its predecessor.

    One that comes early is held. When its predecessor has not come after *gap_timeout* seconds: `on_gap` (stop, skip,
    or resync, which calls *resync(key, tx)* to fetch the state and then goes on). A dead letter blocks its key until
    it is replayed or skipped, unless *on_dead* says otherwise. *baseline*: may a key begin anywhere, or at 1 only.
    """

    key: Pick | None = None
    seq: Pick | None = None
    prev_seq: Pick | None = None
    gap_timeout: float = 300.0
    on_gap: OnGap | Literal["stop", "skip", "resync"] = OnGap.STOP
    on_dead: OnDead | Literal["block", "skip", "resync"] = OnDead.BLOCK
    baseline: Literal["any", 1] = "any"
    resync: Callable[[str, Any], Any] | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.on_gap not in list(OnGap):
            problems.append(f"sequence: on_gap must be one of {', '.join(OnGap)}, got {self.on_gap!r}")
        if self.on_dead not in list(OnDead):
            problems.append(f"sequence: on_dead must be one of {', '.join(OnDead)}, got {self.on_dead!r}")
        if self.baseline not in ("any", 1):
            problems.append(f'sequence: baseline must be "any" or 1, got {self.baseline!r}')
        if not isinstance(self.gap_timeout, int | float) or not self.gap_timeout > 0:
            problems.append(f"sequence: gap_timeout must be a positive number of seconds, got {self.gap_timeout!r}")
        if "resync" in (self.on_gap, self.on_dead) and self.resync is None:
            problems.append("sequence: on_gap or on_dead is resync, so resync=… must be a function (key, tx)")
        if problems:
            raise ConfigError(problems)

    def place(self, message: Message, document: Document) -> tuple[str, int, int] | None:
        """(key, seq, prev_seq), or None for an event that stands in no line."""
        key = key_of(self.key, message, document)
        seq = message.seq if self.seq is None else _whole(pick(document(), self.seq))
        if key is None or seq is None:
            return None
        prev_seq = message.prev_seq if self.prev_seq is None else _whole(pick(document(), self.prev_seq))
        return key, seq, seq - 1 if prev_seq is None else prev_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Refetch:
    """An event is a hint that makes the handler fetch the current state. Hints about one key are coalesced: those
    that had arrived when the handler began are done when it is; and one handler at a time is at work on a key."""

    key: Pick | None = None


Order = NoOrder | Latest | InSequence | Refetch
OrderWord = Literal["none", "latest", "sequence", "refetch"]
"""An order with its defaults, by its name."""

latest = Latest
sequence = InSequence
refetch = Refetch


def order_of(profile_order: Ordering) -> Order:
    """The order that a profile asks for."""
    match profile_order:
        case Ordering.NONE:
            return NoOrder()
        case Ordering.LATEST:
            return Latest()
        case Ordering.SEQUENCE:
            return InSequence()
        case Ordering.REFETCH:
            return Refetch()


def as_order(order: Order | OrderWord | None, default: Order) -> Order:
    """*order* as a value; a word stands for its defaults."""
    if order is None:
        return default
    if isinstance(order, str):
        if order not in list(Ordering):
            raise ConfigError([f"order must be one of {', '.join(Ordering)}, got {order!r}"])
        return order_of(Ordering(order))
    given: object = order
    if not isinstance(given, NoOrder | Latest | InSequence | Refetch):
        words = "order is latest(…), sequence(…), refetch(…) or one of the words " + ", ".join(Ordering)
        raise ConfigError([f"{words}; got {getattr(given, '__name__', given)!r}"])
    return order


def key_of(where: Pick | None, message: Message, document: Document) -> str | None:
    """The key of *message* as text."""
    if where is None:
        return message.key
    value = pick(document(), where)
    # What a stranger wrote may be longer than a store takes, or hold a NUL, which PostgreSQL refuses.
    return None if value is None else storable(value if isinstance(value, str) else str(value))


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
