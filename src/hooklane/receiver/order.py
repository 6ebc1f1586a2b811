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
from hooklane.model.whole import is_whole
from hooklane.receiver.failure import text_of
from hooklane.receiver.fields import apply_latest

GAP_TIMEOUT_MAX = 366 * 86_400
Document = Callable[[], Any]
"""Gives the JSON of a message, read once when it is needed."""
Place = tuple[str, int, int]
"""Where an event stands in its sequence: key, seq and the seq of its predecessor."""


@dataclass(frozen=True, slots=True)
class NoOrder:
    """Every event is applied when it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """An event of an entity is applied only if it is newer than what was applied: last writer wins by event time.

    *key* and *at* say where the entity's name and the event's time are (a path or a callable; the profile's own by
    default). Ties go by *version*, then by the rank of the type in *ranks*, then by event id; with `on_tie="refetch"`
    the handler runs with `event.tied` set, to ask the provider. A time more than *skew_ms* ahead is quarantined.

    *ranks* are patterns of types in the order of a life. A type in none of them (`invoice.paid`) comes after the first
    and before the last: with the second of three or more, which is `*updated*` unless given; before a single one.
    """

    key: Pick | None = None
    at: Pick | None = None
    version: Pick | None = None
    ranks: Sequence[str] = RANKS
    on_tie: Literal["id", "refetch"] = "id"
    skew_ms: int = SKEW_MS

    apply = apply_latest

    def __post_init__(self) -> None:
        problems = _pick_problems("latest", key=self.key, at=self.at, version=self.version)
        ranks: object = self.ranks
        is_several = isinstance(ranks, Sequence) and not isinstance(ranks, str)
        if not is_several or not all(isinstance(one, str) for one in self.ranks):
            problems.append(f"latest: ranks are several patterns of types, got {self.ranks!r}")
        if self.on_tie not in ("id", "refetch"):
            problems.append(f'latest: on_tie must be "id" or "refetch", got {self.on_tie!r}')
        if not is_whole(self.skew_ms, least=0):
            problems.append(f"latest: skew_ms must be a whole number of at least 0, got {self.skew_ms!r}")
        if problems:
            raise ConfigError(problems)

    def mark(self, message: Message, document: Document) -> tuple[str, int, str]:
        """The entity, the time in microseconds and the tie breaker; `Reject` where the event does not say them."""
        try:
            return self._mark(message, document)
        except Reject:
            raise
        except Exception as error:
            raise _unread("latest", error) from error

    def _mark(self, message: Message, document: Document) -> tuple[str, int, str]:
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

    One that comes early is held. When its predecessor has not come after *gap_timeout* seconds (at most 366 days):
    `on_gap` (stop, which waits for a person, however long; skip; or resync, which calls *resync(key, tx)* to fetch the
    state and then goes on). A dead letter blocks its key until it is replayed or skipped, unless *on_dead* says
    otherwise. *baseline*: may a key begin anywhere, or at 1 only.

    An event without a key or a seq stands in no line, and is applied when it comes. One whose seq is there and is no
    whole number, or on which a function given here raises, is a dead letter of this handler alone.
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
        problems = _pick_problems("sequence", key=self.key, seq=self.seq, prev_seq=self.prev_seq)
        if self.on_gap not in list(OnGap):
            problems.append(f"sequence: on_gap must be one of {', '.join(OnGap)}, got {self.on_gap!r}")
        if self.on_dead not in list(OnDead):
            problems.append(f"sequence: on_dead must be one of {', '.join(OnDead)}, got {self.on_dead!r}")
        if self.baseline not in ("any", 1):
            problems.append(f'sequence: baseline must be "any" or 1, got {self.baseline!r}')
        if not _is_patience(self.gap_timeout):
            wanted = "a positive number of seconds, at most 366 days"
            problems.append(f"sequence: gap_timeout must be {wanted}, got {self.gap_timeout!r}")
        if "resync" in (self.on_gap, self.on_dead) and self.resync is None:
            problems.append("sequence: on_gap or on_dead is resync, so resync=… must be a function (key, tx)")
        if problems:
            raise ConfigError(problems)

    def place(self, message: Message, document: Document) -> Place | None:
        """(key, seq, prev_seq), or None for an event that stands in no line; `Reject` where it cannot be told."""
        try:
            key = key_of(self.key, message, document)
            seq = message.seq if self.seq is None else _whole(pick(document(), self.seq))
            if key is None or seq is None:
                return None
            prev_seq = message.prev_seq if self.prev_seq is None else _whole(pick(document(), self.prev_seq))
        except Reject:
            raise
        except Exception as error:
            raise _unread("sequence", error) from error
        return key, seq, seq - 1 if prev_seq is None else prev_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Refetch:
    """An event is a hint that makes the handler fetch the current state. Hints about one key are coalesced: those
    that had arrived when the handler began are done when it is; and one handler at a time is at work on a key.

    An event on which a function given as *key* raises is a dead letter of this handler alone.
    """

    key: Pick | None = None

    def __post_init__(self) -> None:
        if problems := _pick_problems("refetch", key=self.key):
            raise ConfigError(problems)

    def hint(self, message: Message, document: Document) -> str | None:
        """The key that the event is a hint about, if it has one; `Reject` where it cannot be told."""
        try:
            return key_of(self.key, message, document)
        except Exception as error:
            raise _unread("refetch", error) from error


def _pick_problems(order: str, **places: object) -> list[str]:
    """What is wrong with where an order looks: each is a path or a function of the parsed event, if it is given."""
    return [
        f"{order}: {name} is a path or a function of the parsed event, got {where!r}"
        for name, where in places.items()
        if where is not None and not callable(where) and not (isinstance(where, str) and where)
    ]


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


def _is_patience(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= GAP_TIMEOUT_MAX


def _unread(order: str, error: Exception) -> Reject:
    return Reject(f"{order}: the application's function raised {text_of(error)}")


def _whole(value: Any) -> int | None:
    """A seq as a number: also one that comes as text or as 3.0; `Reject` for what is there and is none."""
    if value is None:
        return None
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19
    # A float above 2**53 stands for several whole numbers.
    is_exact = isinstance(value, float) and value.is_integer() and value <= 2**53
    number = int(value) if is_digits or is_exact else value
    if is_whole(number, least=0) and number < 2**63:
        return int(number)
    raise Reject(f"sequence: a seq must be a whole number of at least 0 and less than 2**63, got {repr(value)[:40]}")
