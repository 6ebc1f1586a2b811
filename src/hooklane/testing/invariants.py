"""What must hold in every history of the sender, wherever it comes from: the simulator, or real processes under faults.

Call one method per thing that happened, in the order in which it happened. The checker keeps its own books and shares
no code with the engine or a store, so that it cannot make their mistakes. Numbers and names are those of the design:

     1 stamp               5 durable order       9 one owner per epoch  13 bounded attempts  17 identity
     2 accept is final     6 ack needs a 2xx    10 one in flight        14 dup has a reason  18 skip is explicit
     3 first-ack order     7 head is monotone   11 zombies not ahead    15 late copies old   19 progress
     4 send order          8 epoch fence        12 dead means stopped   16 backoff           23 innocence
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hooklane.testing.lane_book import LaneBook, Rules
from hooklane.testing.violation import Violation

KILLS_MAX = 9
"""An event may kill so many workers: one before it is suspected, two in company, and six alone."""
KEEP_MAX = 100
"""So many violations are kept in words; the rest is only counted."""


class Invariants:
    """The books of one history and what was found wrong with it."""

    def __init__(self, clock: Callable[[], float], *, only_events_kill: bool = False) -> None:
        """*clock* shows the true time in milliseconds, which those who are watched may not know.

        Where *only_events_kill* workers, none but those may be blamed for it.
        """
        self.violations: list[Violation] = []
        self._clock = clock
        self._only_events_kill = only_events_kill
        self.counts: Counter[int] = Counter()
        self._books: dict[int, LaneBook] = {}
        self._owners: dict[int, tuple[str, int]] = {}
        self._unclean: dict[int, int] = {}

    def broken(self, number: int, detail: str) -> None:
        """Take note of a violation; also for checks that are made elsewhere."""
        self.counts[number] += 1
        if len(self.violations) < KEEP_MAX:
            self.violations.append(Violation(number, detail))

    # --- the publisher ---

    def accepted(self, lane: int, pid: int, seq: int, event_id: str, rules: Rules) -> None:
        """The store made a publish durable."""
        book = self._books.get(lane)
        if book is None:
            book = self._books[lane] = LaneBook(pid, rules)
        if seq != len(book.ids) + 1:
            self.broken(1, f"lane {lane}: seq {seq} was stamped after {len(book.ids)}")
        elif event_id in book.known:
            self.broken(17, f"lane {lane}: {event_id} was stamped again as {seq}")
        book.ids.append(event_id)
        book.known.add(event_id)

    # --- ownership ---

    def owned(self, pid: int, worker: str, epoch: int, *, unclean: bool) -> None:
        """A partition changed hands in the store."""
        before = self._owners.get(pid)
        if before is not None and epoch <= before[1]:
            self.broken(9, f"partition {pid}: epoch {epoch} of {worker} after epoch {before[1]} of {before[0]}")
        self._owners[pid] = (worker, epoch)
        if unclean:
            self._unclean[pid] = epoch

    def forgot(self, epochs: Mapping[int, int]) -> None:
        """A worker gave partitions up with what was in its hands: what landed under these epochs it may not know."""
        for pid, epoch in epochs.items():
            self._unclean[pid] = max(self._unclean.get(pid, -1), epoch + 1)

    def clock_set(self) -> None:
        """The store's clock was set by hand: by the new one, whatever waits may be due."""
        for book in self._books.values():
            book.due = 0.0

    # --- the wire ---

    def sent(
        self, worker: str, epoch: int, lane: int, seq: int, attempt: int, at: int, event_id: str, digest: int
    ) -> None:
        """A worker sent a delivery, at its own idea of the time."""
        book = self._books[lane]
        who = (worker, epoch)
        self._identify(book, lane, seq, event_id, digest)
        flying = book.flying[who] = book.flying.get(who, 0) + 1
        if flying > 1:
            self.broken(10, f"lane {lane}: {worker} sent {seq} while another was in flight")
        head = book.head
        if self._owners.get(book.pid) != who:
            if seq > head:
                self.broken(11, f"lane {lane}: {worker}, who does not own it, sent {seq} at head {head}")
            return
        if seq > head:
            self.broken(4, f"lane {lane}: {worker} sent {seq} at head {head}")
        elif seq < head:
            self.broken(5, f"lane {lane}: {worker} sent {seq} again at head {head}")
        if book.blocked:
            self.broken(12, f"lane {lane}: {worker} sent {seq} while the head is dead")
        # Only what is early by both clocks is early: that of a store may have been set back meanwhile.
        if at < book.next_at and self._clock() < book.due:
            self.broken(16, f"lane {lane}: {worker} sent {seq} at {at}, {book.next_at - at} ms before its time")
        landed = book.landed.get(seq)
        if landed is not None and seq not in book.excused and self._unclean.get(book.pid, -1) <= landed:
            self.broken(14, f"lane {lane}: {worker} sent {seq} again (attempt {attempt}) though it knew of its 2xx")

    def killed(self, worker: str, epoch: int, lane: int, seq: int, attempt: int) -> None:
        """A worker died of a delivery before it could send it."""
        book = self._books[lane]
        if attempt < book.tried:
            self.broken(13, f"lane {lane}: attempt {attempt} of {seq} was made after {book.tried}")
        if self._owners.get(book.pid) == (worker, epoch) and seq == book.head:
            book.kills += 1
            if self._only_events_kill and book.kills > KILLS_MAX:
                self.broken(13, f"lane {lane}: {seq} has killed {book.kills} workers, at most {KILLS_MAX}")

    def _blame(self, book: LaneBook, lane: int, seq: int) -> None:
        if self._only_events_kill and not book.kills:
            self.broken(23, f"lane {lane}: {seq} died for what another event did")

    def unanswered(self, lane: int, seq: int) -> None:
        """The sender saw no answer to an attempt, so that another one is excused."""
        self._books[lane].excused.add(seq)

    def settled(self, worker: str, epoch: int, lane: int) -> None:
        """An attempt ended for its sender, one way or another."""
        book = self._books[lane]
        book.flying[worker, epoch] -= 1
        book.ended = True
        book.settled = self._clock()

    def arrived(self, lane: int, seq: int, event_id: str, digest: int) -> None:
        """A copy reached the receiver."""
        book = self._books[lane]
        self._identify(book, lane, seq, event_id, digest)
        if seq > book.head:
            self.broken(15, f"lane {lane}: a copy of {seq} arrived at head {book.head}")

    def answered(self, lane: int, seq: int, epoch: int, *, landed: bool) -> None:
        """The receiver answered; *landed* when it has the event (2xx, or 409 "have it")."""
        if not landed:
            return
        book = self._books[lane]
        if seq < book.head:
            return
        if seq > book.head:
            self.broken(3, f"lane {lane}: the receiver took {seq} at head {book.head}")
        book.landed[seq] = epoch

    def _identify(self, book: LaneBook, lane: int, seq: int, event_id: str, digest: int) -> None:
        if not 0 < seq <= len(book.ids) or book.ids[seq - 1] != event_id:
            self.broken(17, f"lane {lane}: {event_id} went out as {seq}")
        if book.digests.setdefault(seq, digest) != digest:
            self.broken(17, f"lane {lane}: two copies of {seq} have different bytes")

    # --- what became durable ---

    def acked(self, worker: str, epoch: int, lane: int, seq: int) -> None:
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if seq not in book.landed:
            self.broken(6, f"lane {lane}: {worker} acked {seq}, which no receiver took")
        self._forward(book, lane, seq)

    def failed(
        self, worker: str, epoch: int, lane: int, seq: int, attempt: int, at: int, next_at: int | None, *, seen: bool
    ) -> None:
        """An attempt failed durably; *next_at* says when the next one is due, None when only a person decides.

        It was *seen* to fail, unless its worker died of it.
        """
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if seen and not book.ended:
            self.broken(13, f"lane {lane}: {worker} counted a failure of {seq} that did not happen since the last one")
        book.ended = False
        if seq != book.head:
            self.broken(7, f"lane {lane}: a failure of {seq} was written at head {book.head}")
        if next_at is not None:
            book.failures += 1
            due = min(book.rules.backoff_cap_ms, book.rules.backoff_ms * 2 ** min(attempt - 1, 40))
            if next_at - at < due:
                self.broken(16, f"lane {lane}: attempt {attempt} of {seq} waits {next_at - at} ms, not {due}")
            book.next_at, book.due = next_at, book.settled + 0.95 * (next_at - at)
        if book.failures > book.rules.attempts_max:
            self.broken(13, f"lane {lane}: {book.failures} failures of {seq}, at most {book.rules.attempts_max}")
        if attempt < book.tried:
            self.broken(13, f"lane {lane}: attempt {attempt} of {seq} was counted after {book.tried}")
        book.tried = attempt

    def started(self, worker: str, epoch: int, lane: int, seq: int, attempt: int) -> None:
        """An attempt was announced durably."""
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if seq != book.head or attempt < book.tried:
            self.broken(13, f"lane {lane}: attempt {attempt} of {seq} was announced after {book.tried}")
        book.tried = attempt

    def died(self, worker: str, epoch: int, lane: int, seq: int, *, seen: bool = True) -> None:
        """A head became a dead letter; of a failure that was *seen*, or because workers died of it."""
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if not seen:
            self._blame(book, lane, seq)
        if seq != book.head:
            self.broken(7, f"lane {lane}: {seq} died at head {book.head}")
        book.blocked = True

    def given_up(self, worker: str, epoch: int, lane: int, seq: int, *, recorded: bool, seen: bool = True) -> None:
        """An owner gave a head up by the endpoint's policy."""
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if not seen:
            self._blame(book, lane, seq)
        if not book.rules.skips_dead or not recorded:
            self.broken(18, f"lane {lane}: {worker} gave {seq} up without a policy or a record")
        book.skipped.add(seq)
        self._forward(book, lane, seq)

    def cancelled(self, worker: str, epoch: int, lane: int, seq: int, *, deleted: bool) -> None:
        """An owner cancelled one delivery; *deleted* when the endpoint's tombstone asks for it."""
        book = self._books[lane]
        self._fence(book, lane, worker, epoch)
        if not deleted:
            self.broken(18, f"lane {lane}: {worker} cancelled {seq} of an endpoint that was not deleted")
        book.skipped.add(seq)
        self._forward(book, lane, seq)

    def _fence(self, book: LaneBook, lane: int, worker: str, epoch: int) -> None:
        owner = self._owners.get(book.pid)
        if owner != (worker, epoch):
            self.broken(8, f"lane {lane}: {worker} wrote under epoch {epoch}, the owner is {owner}")

    def _forward(self, book: LaneBook, lane: int, seq: int) -> None:
        if seq != book.head:
            self.broken(7, f"lane {lane}: the head moved from {book.head} over {seq}")
        book.advance(seq)

    # --- people ---

    def replayed(self, lane: int, seq: int, head: int) -> None:
        """A person revived a dead head; the store says that the head is *head* now."""
        book = self._books[lane]
        if head != book.head or seq != head:
            self.broken(7, f"lane {lane}: a replay of {seq} moved the head from {book.head} to {head}")
        book.blocked = book.ended = False
        book.failures = book.tried = book.next_at = book.kills = 0
        book.excused.add(seq)

    def skipped(self, lane: int, seq: int, head: int, *, recorded: bool) -> None:
        """A person gave a dead head up; the store says that the head is *head* now."""
        book = self._books[lane]
        if not recorded:
            self.broken(18, f"lane {lane}: {seq} was skipped and nothing tells of it")
        if seq != book.head or head != seq + 1:
            self.broken(7, f"lane {lane}: a skip of {seq} moved the head from {book.head} to {head}")
        book.skipped.add(seq)
        book.advance(seq)

    # --- the end ---

    def head_of(self, lane: int) -> int:
        return self._books[lane].head

    def stored(self, lane: int, head: int, ids: Iterable[str]) -> None:
        """What the store holds of a lane when everything has come to rest."""
        book = self._books[lane]
        if head != book.head:
            self.broken(7, f"lane {lane}: the store says head {head}, the history says {book.head}")
        if list(ids) != book.ids:
            self.broken(2, f"lane {lane}: the store does not hold what it accepted")
