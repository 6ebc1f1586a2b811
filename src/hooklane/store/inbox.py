"""What must a store of the inbox be able to do? Few verbs, each a sentence of the domain.

A verb is a flow: a generator that yields the steps which only the back-end knows (a statement, a script, a call) and
returns the answer. The session that runs it, sync or async, performs each step; so a verb is written once.
Stores decide nothing: they answer what is there and write what they are told, conditionally where it says so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import (
    Claimed,
    Count,
    Gap,
    HandlingFailure,
    Heartbeat,
    Identity,
    Known,
    NewHandling,
    NewRow,
    Row,
    RowId,
    Search,
    Track,
)
from hooklane.model.message import Status

T = TypeVar("T")
Flow = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What differs between back-ends; nothing else may."""

    name: str
    atomic: bool
    """The handler's own writes on `tx` and the completion are one commit."""
    durable: bool
    """What was stored outlives the process."""
    survives_failover: bool
    """What was acknowledged outlives the loss of the primary."""
    sync: bool = True
    native_async: bool = False
    """Async sessions do not need a thread."""
    async_handlers: bool = True
    """Async handlers have a session; borrowed sync connections give them none."""
    single_writer: bool = False
    """One write transaction at a time: look before you write, so that a duplicate never waits for a handler."""
    locks: bool = False
    """Concurrent copies in inline mode are told apart at once by a lock instead of waiting for each other."""
    outbox: bool = False
    """`event.send` can write our outbox in the same commit."""
    transactional: bool = True
    """Nothing of a session is seen before it commits. Where it is, a claim is leased first, in inline mode too."""
    orders: tuple[str, ...] = ("none", "latest", "sequence", "refetch")
    """Which orders of a key it can keep; a handler that asks for another one is refused when it is registered."""
    state_tokens: bool = True
    """Duplicates can be told by the entity's current state (`dedup="state_token"`)."""
    mode: Literal["durable", "inline"] = "durable"
    """What an inbox does unless it is told."""
    expires_ms: int | None = None
    """Settled rows vanish by themselves so long after; a source cannot be kept longer."""
    payload_bytes_max: int | None = None
    """The longest body that it can keep; a source that takes longer ones is refused."""
    sweeps: bool = True
    """Pruning is cheap, so a worker does it every hour; where it is not, rows expire, and a person may prune."""
    caveat: str = ""
    """What a user must know, in one sentence."""


class Session(Protocol):
    """One transaction, begun; *tx* is what the handler gets."""

    @property
    def tx(self) -> Any: ...
    def perform(self, step: Any) -> Any: ...
    def handing_over(self) -> None: ...
    def taking_back(self, error: BaseException | None = None) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class AsyncSession(Protocol):
    """One transaction for async handlers: a `Session` to await."""

    @property
    def tx(self) -> Any: ...
    async def perform(self, step: Any) -> Any: ...
    async def handing_over(self) -> None: ...
    async def taking_back(self, error: BaseException | None = None) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def close(self) -> None: ...


class Shared(Session, Protocol):
    """A session that can hold what several have to write, each a part that is undone alone, and commits it all."""

    @property
    def is_whole(self) -> bool:
        """Whether what was written so far is still there: some errors undo all of a transaction."""

    @property
    def is_marked(self) -> bool:
        """Whether a handler has left on the connection what the next must not find, so that no part may follow."""

    def save(self) -> None:
        """What comes now is a part of its own, until `keep` or `undo`."""

    def keep(self) -> None:
        """The part is done: it shares the fate of the whole."""

    def undo(self) -> None:
        """The part never was, and the rest stays as it is."""


class AsyncShared(AsyncSession, Protocol):
    """A `Shared` session for async handlers."""

    @property
    def is_whole(self) -> bool: ...
    @property
    def is_marked(self) -> bool: ...
    async def save(self) -> None: ...
    async def keep(self) -> None: ...
    async def undo(self) -> None: ...


@runtime_checkable
class SingleWriter(Protocol):
    """What a store with `single_writer` offers besides: looks that wait for no writer, commits that are shared."""

    @property
    def is_busy(self) -> bool: ...
    @property
    def busy_wait_ms(self) -> int:
        """How long `begin` waits unless it is told."""

    def look(self, identities: Sequence[Identity]) -> list[Known | None]: ...
    def begin_look(self) -> Session:
        """A transaction that only reads, and waits for no writer."""

    def begin(self, *, wait_ms: int | None = None) -> Shared: ...
    async def abegin(self, *, wait_ms: int | None = None) -> AsyncShared: ...


class InboxVerbs(Protocol):
    """What is done with rows, in a transaction that was begun before."""

    # Receiving
    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        """Write rows with their handlings; None for each whose identity was there already. This is the dedup."""

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        """What is known about each identity."""

    def try_lock(self, identity: Identity) -> Flow[bool]:
        """Whether this transaction is now the only one at work on *identity* (always, where `locks` is false)."""

    def remember(self, source: str, account: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        """Leave a tombstone for *digest*; the event id of an earlier one, if there is one, and then nothing changes."""

    def turn(self, track: Track, token: str) -> Flow[tuple[int, bool]]:
        """Make *token* the current state of the entity: its generation, and whether it was another one before."""

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        """Add to the number of copies that arrived."""

    # Handling
    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        """Take up to *limit* due handlings of (source, handler) pairs: lease, higher fence, one more attempt.

        With *expired* those in progress whose lease ran out, else those that are pending or to be retried.
        """

    def claim_one(self, id: RowId, handler: str, *, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        """Take this one handling now if it is owed and no lease on it lives, due or not."""

    def renew(self, id: RowId, handler: str, fence: int, *, now: Instant, lease_ms: int) -> Flow[bool]:
        """Extend the lease while *fence* is current."""

    def complete(self, id: RowId, handler: str, fence: int, status: Status, now: Instant) -> Flow[bool]:
        """Settle a handling while *fence* is current; False: another holds it, so roll everything back."""

    def fail(self, id: RowId, handler: str, fence: int, failure: HandlingFailure) -> Flow[bool]:
        """Record a failure while *fence* is current."""

    # Order
    def cursor(self, track: Track, baseline: int) -> Flow[int]:
        """The last applied seq of *track*, locked against change for this transaction; begun at *baseline* if new."""

    def cursors(self, tracks: Mapping[Track, int]) -> Flow[dict[Track, int]]:
        """The same for many, each with its baseline, locked in one order that all use."""

    def applied(self, track: Track) -> Flow[int | None]:
        """The last applied seq of *track*, without a lock; None for one that was never seen."""

    def advance(self, track: Track, *, prev_seq: int, seq: int) -> Flow[bool]:
        """Move the cursor to *seq* if it stands in [*prev_seq*, *seq*)."""

    def release(self, track: Track, seq: int, now: Instant) -> Flow[int]:
        """Held handlings of *track* whose predecessor is applied become pending; how many."""

    def arrived(self, places: Sequence[tuple[Track, int]]) -> Flow[list[bool]]:
        """Whether a handling with this seq of this track is in the store and still owed, for each."""

    def newer(self, track: Track, at: int, tie: str) -> Flow[bool]:
        """Make (*at*, *tie*) the newest of *track*, and lock it, if it is newer than what is there."""

    def mark(self, track: Track) -> Flow[tuple[int, str] | None]:
        """The newest (at, tie) of *track*, locked for this transaction."""

    def touch(self, track: Track) -> Flow[None]:
        """Lock *track* for this transaction, so that one handler at a time is at work on its key."""

    def coalesce(self, track: Track, until: RowId, now: Instant) -> Flow[int]:
        """Complete what is owed to *track* by rows up to *until*: the state just fetched covers them."""

    def latest_row(self) -> Flow[RowId]:
        """The largest row id given out so far."""

    def gaps(self, before: Instant, limit: int) -> Flow[list[Gap]]:
        """Tracks whose first held message has waited since before *before* for one that is not in the store."""

    # Keeping
    def reopen(self, id: RowId, handler: str, *, now: Instant, was: Status | None = None) -> Flow[bool]:
        """Owe a settled or dead handling again, attempts from zero, with a higher fence; with *was*, only while that
        is its status: what a person saw may be another one's to decide by now."""

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        """Owe a row that is there to one more handler. Its own status, such as dead, is over: its handlings speak."""

    def restate(self, id: RowId, status: Status, reason: str, now: Instant, *, was: Status) -> Flow[bool]:
        """Change a row's own status, and its reason, while it is *was*: a person gives up what cannot be read."""

    def settle(
        self, id: RowId, handler: str, status: Status, note: str, now: Instant, *, was: Status | None = None
    ) -> Flow[bool]:
        """Give a handling up by hand: what was dead, held, failed or pending ends in *status*; *was* as above."""

    def heartbeat(self) -> Flow[Heartbeat | None]:
        """The stored heartbeat."""

    def beat(self, heartbeat: Heartbeat) -> Flow[None]:
        """Store the heartbeat."""

    def keep_clock(self, now: Instant, said: Instant = START) -> Flow[int]:
        """Note what time it is. A clock that was set back since the last look moves leases and all that waits with it,
        or a retry would wait for the clock to catch up, and so would a dead worker's claim; by how much it was set.

        *said* is the latest that this process's clock has said: where that was ahead, what waits by it moves too."""

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        """Remove up to *limit* rows received before *before* that owe nothing and are not dead; how many."""

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        """Forget the payloads, not the ids, of up to *limit* such rows."""

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        """Remove up to *limit* digest tombstones older than *before*."""

    # Reading
    def rows(self, search: Search) -> Flow[list[Row]]:
        """Rows that match, oldest first."""

    def counts(self) -> Flow[list[Count]]:
        """How many handlings there are by source, handler and status."""


class InboxStore(InboxVerbs, Protocol):
    """The verbs, and transactions to use them in. `handing_over`/`taking_back` of a session bracket the handler: a `tx`
    that was committed or rolled back meanwhile raises `TransactionMisused`."""

    @property
    def capabilities(self) -> Capabilities: ...

    def begin(self, *, wait_ms: int | None = None) -> Session:
        """A transaction for sync code; `StoreUnavailable` when it cannot begin within *wait_ms*."""

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncSession:
        """A transaction for async code."""

    def close(self) -> None: ...
    async def aclose(self) -> None: ...
