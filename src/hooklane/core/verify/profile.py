"""What is known about a provider: how it signs, where ids and clocks live, how long it keeps trying."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.core.verify.handshake import Greeting
from hooklane.core.verify.places import InBody, InEnvelope, InHeader, Joined, Place, Proven, read_at, read_first
from hooklane.core.verify.reading import Unit
from hooklane.core.verify.scheme import Scheme, Signed, SignedItems, Token, TokenItems, TopicSigned

HOURS_MS = 3_600_000


class Grade(StrEnum):
    """How much an accepted request proves, from strongest to weakest."""

    SIGNED = "signed"  # body and event id
    SIGNED_BODY_UNSIGNED_ID = "signed_body_unsigned_id"  # the id is in a header that is not signed
    PARTLY_SIGNED = "partly_signed"  # some fields, a token or a checksum; the rest of the body is not protected
    AUTHENTICATED = "authenticated"  # a shared token was shown; nothing that was sent is protected
    UNSAFE = "unsafe"  # nothing was checked


class Dedup(StrEnum):
    """What makes two messages the same one."""

    EVENT_ID = "event_id"
    STATE_TOKEN = "state_token"  # the id fingerprints a state, so it comes again when the state does
    DERIVED = "derived"  # the provider gives no id: a digest of the body stands in


class Ordering(StrEnum):
    """How messages of one key are put in order unless the handler says otherwise."""

    NONE = "none"
    LATEST = "latest"
    SEQUENCE = "sequence"
    REFETCH = "refetch"


@dataclass(frozen=True, slots=True)
class Budget:
    """How long the sender waits for an answer, and how long it keeps trying."""

    timeout_ms: int = 10_000
    window_ms: int | None = None
    """From the first attempt to the last; None when it is not published."""
    retries: bool = True


@dataclass(frozen=True, slots=True)
class Split:
    """Where a batch keeps its items; *unwrap* is the member that each item wraps its event in.

    A body that is not such a batch is one event.
    """

    path: str
    unwrap: str = ""


@dataclass(frozen=True, slots=True)
class When:
    """A time of the event, and how it is written."""

    place: Place
    unit: Unit = Unit.ISO


class Reads:
    """What finds each field of a message where a profile says that it is; made once, used for every message."""

    __slots__ = ("account", "attempt", "delivery_id", "envelope", "event_time", "id", "key", "prev_seq", "seq", "type")

    def __init__(self, profile: Profile) -> None:
        self.id = [(read_at(place), place) for place in profile.id]
        self.type = read_first(profile.type)
        self.key = read_first(profile.key)
        self.seq = read_first(profile.seq)
        self.prev_seq = read_first(profile.prev_seq)
        self.event_time = [(read_at(when.place), when) for when in profile.event_time]
        self.delivery_id = read_first(profile.delivery_id)
        self.attempt = read_first(profile.attempt)
        self.account = read_first(profile.account)
        self.envelope = frozenset(profile.envelope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A provider as data. Places are tried in order; the first value that is there counts."""

    name: str
    title: str
    schemes: tuple[Scheme, ...]
    id: tuple[Place, ...] = ()
    type: tuple[Place, ...] = ()
    key: tuple[Place, ...] = ()
    seq: tuple[Place, ...] = ()
    prev_seq: tuple[Place, ...] = ()
    event_time: tuple[When, ...] = ()
    delivery_id: tuple[Place, ...] = ()
    attempt: tuple[Place, ...] = ()
    account: tuple[Place, ...] = ()
    single_use: bool = False
    """What is signed besides the delivery id does not bind the event to it, so it may bring one event only: a captured
    one must not bring another."""
    volatile: tuple[str, ...] = ()
    """Paths that change on every retry of the same event."""
    data: str = ""
    """Where the event's own content is; empty when it is the whole body."""
    envelope: tuple[str, ...] = ()
    """Members that a body must have, with `id` equal to the proven one, before key, seq and time are read from it:
    a sender that can send bare payloads must not have them taken for its envelope."""
    split: tuple[Split, ...] = ()
    """The first that fits the body counts."""
    handshakes: tuple[Greeting, ...] = ()
    budget: Budget = Budget()
    dedup: Dedup = Dedup.EVENT_ID
    order: Ordering = Ordering.NONE
    own_sender: bool = False
    form: bool = False
    """Bodies may be HTML forms."""
    hints: bool = False
    """Its notifications say only that something changed, so equal bodies are different events."""
    notes: str = field(default="", compare=False)
    """What an operator should know; `hooklane verify` shows it where it refuses a request."""
    reads: Reads = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", Reads(self))

    @property
    def grade(self) -> Grade:
        """What the strongest scheme proves; `Keyring.grade` knows which ones are in use."""
        return grade_of(self, self.schemes[0])

    @property
    def tolerance_ms(self) -> int | None:
        """The widest window of its timestamps; None where a signature stays valid for ever."""
        stamps = [scheme.stamp for scheme in self.schemes if isinstance(scheme, Signed) and scheme.stamp]
        return max((stamp.tolerance_ms for stamp in stamps if stamp.tolerance_ms is not None), default=None)

    @property
    def needs_url(self) -> bool:
        """Whether the URL that was registered at the provider is part of what is signed."""
        return any(scheme.needs_url for scheme in self.schemes)


def grade_of(profile: Profile, scheme: Scheme) -> Grade:
    """What a request proves that *scheme* accepted."""
    match scheme:
        case Token() | TokenItems():
            return Grade.AUTHENTICATED
        case SignedItems():
            return Grade.PARTLY_SIGNED
        case Signed() if not scheme.covers_body:
            return Grade.PARTLY_SIGNED
        case Signed() | TopicSigned():
            signed = not profile.id or is_proof(profile.id[0], scheme)
            return Grade.SIGNED if signed else Grade.SIGNED_BODY_UNSIGNED_ID


def is_proof(place: Place, scheme: Scheme) -> bool:
    """Whether a value at *place* is covered by what *scheme* signs."""
    if isinstance(place, InBody):  # as nearly all are
        return place.path in scheme.fields if isinstance(scheme, SignedItems) else scheme.covers_body
    if isinstance(place, Proven):
        return True
    match place:
        case InHeader():
            return False
        case Joined(places):
            return all(is_proof(each, scheme) for each in places)
        case InEnvelope():
            return scheme.covers_body
        case _:
            return scheme.covers_body
