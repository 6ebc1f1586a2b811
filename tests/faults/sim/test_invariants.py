"""The checker itself: each promise can be broken, and is named when it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hooklane.testing.arrivals import Arrival, tally
from hooklane.testing.invariants import KILLS_MAX, Invariants
from hooklane.testing.lane_book import Rules
from hooklane.testing.violation import NAMES

RULES = Rules(attempts_max=2, backoff_ms=100, backoff_cap_ms=1_000)
History = Callable[[Invariants], None]


def lane(books: Invariants, events: int = 3, *, rules: Rules = RULES) -> None:
    """Lane 7 in partition 0 with events e1 …, owned by w1 under epoch 1."""
    books.owned(0, "w1", 1, unclean=False)
    for seq in range(1, events + 1):
        books.accepted(7, 0, seq, f"e{seq}", rules)


def send(books: Invariants, seq: int = 1, *, worker: str = "w1", epoch: int = 1, at: int = 0, digest: int = 0) -> None:
    books.sent(worker, epoch, 7, seq, 1, at, f"e{seq}", digest)


def deliver(books: Invariants, seq: int = 1, *, epoch: int = 1, worker: str = "w1") -> None:
    send(books, seq, worker=worker, epoch=epoch)
    books.arrived(7, seq, f"e{seq}", 0)
    books.answered(7, seq, epoch, landed=True)
    books.settled(worker, epoch, 7)
    books.acked(worker, epoch, 7, seq)


def fail(books: Invariants, attempt: int = 1, *, next_at: int | None = 1_000) -> None:
    send(books, at=10**9)
    books.settled("w1", 1, 7)
    books.failed("w1", 1, 7, 1, attempt, 0, next_at, seen=True)


def gap(books: Invariants) -> None:
    books.accepted(7, 0, 5, "e5", RULES)


def lost(books: Invariants) -> None:
    books.stored(7, 1, ["e1", "e3"])


def early_receiver(books: Invariants) -> None:
    books.answered(7, 2, 1, landed=True)


def overtaking(books: Invariants) -> None:
    send(books, 2)


def old_news(books: Invariants) -> None:
    deliver(books)
    send(books, 1)


def unearned(books: Invariants) -> None:
    books.acked("w1", 1, 7, 1)


def backwards(books: Invariants) -> None:
    books.failed("w1", 1, 7, 2, 1, 0, None, seen=False)


def zombie_write(books: Invariants) -> None:
    books.owned(0, "w2", 2, unclean=True)
    deliver(books)


def same_epoch(books: Invariants) -> None:
    books.owned(0, "w2", 1, unclean=True)


def twice_at_once(books: Invariants) -> None:
    send(books)
    send(books)


def zombie_ahead(books: Invariants) -> None:
    books.owned(0, "w2", 2, unclean=True)
    send(books, 2)


def dead_and_sent(books: Invariants) -> None:
    books.died("w1", 1, 7, 1)
    send(books)


def too_often(books: Invariants) -> None:
    for attempt in (1, 2, 3):
        fail(books, attempt)


def counted_back(books: Invariants) -> None:
    fail(books, 2)
    fail(books, 1)


def invented_failure(books: Invariants) -> None:
    books.failed("w1", 1, 7, 1, 1, 0, 1_000, seen=True)


def known_and_resent(books: Invariants) -> None:
    send(books)
    books.answered(7, 1, 1, landed=True)
    books.settled("w1", 1, 7)
    send(books)


def clean_handover_and_resent(books: Invariants) -> None:
    send(books)
    books.answered(7, 1, 1, landed=True)
    books.owned(0, "w2", 2, unclean=False)
    send(books, worker="w2", epoch=2)


def future_copy(books: Invariants) -> None:
    books.arrived(7, 2, "e2", 0)


def impatient(books: Invariants) -> None:
    send(books)
    books.settled("w1", 1, 7)
    books.failed("w1", 1, 7, 1, 1, 0, 500, seen=True)
    send(books, at=499)


def short_wait(books: Invariants) -> None:
    fail(books, next_at=99)


def other_bytes(books: Invariants) -> None:
    send(books, digest=1)
    books.arrived(7, 1, "e1", 2)


def other_event(books: Invariants) -> None:
    books.arrived(7, 1, "e2", 0)


def stamped_twice(books: Invariants) -> None:
    books.accepted(7, 0, 4, "e1", RULES)


def silent_skip(books: Invariants) -> None:
    books.skipped(7, 1, 2, recorded=False)


def skip_without_policy(books: Invariants) -> None:
    books.given_up("w1", 1, 7, 1, recorded=True)


def cancelled_alive(books: Invariants) -> None:
    books.cancelled("w1", 1, 7, 1, deleted=False)


def for_another(books: Invariants) -> None:
    books.killed("w1", 1, 7, 1, 1)
    books.skipped(7, 1, 2, recorded=True)
    books.died("w1", 1, 7, 2, seen=False)


def given_up_for_another(books: Invariants) -> None:
    books.given_up("w1", 1, 7, 1, recorded=True, seen=False)


def killing_for_ever(books: Invariants) -> None:
    for epoch in range(2, KILLS_MAX + 3):
        books.owned(0, "w1", epoch, unclean=True)
        books.killed("w1", epoch, 7, 1, 1)


def fewer_tries(books: Invariants) -> None:
    books.started("w1", 1, 7, 1, 2)
    books.killed("w1", 1, 7, 1, 1)


BROKEN: list[tuple[int, History]] = [
    (1, gap),
    (2, lost),
    (3, early_receiver),
    (4, overtaking),
    (5, old_news),
    (6, unearned),
    (7, backwards),
    (8, zombie_write),
    (9, same_epoch),
    (10, twice_at_once),
    (11, zombie_ahead),
    (12, dead_and_sent),
    (13, too_often),
    (13, counted_back),
    (13, invented_failure),
    (14, known_and_resent),
    (14, clean_handover_and_resent),
    (15, future_copy),
    (16, impatient),
    (16, short_wait),
    (17, other_bytes),
    (17, other_event),
    (17, stamped_twice),
    (18, silent_skip),
    (18, skip_without_policy),
    (18, cancelled_alive),
    (23, for_another),
    (23, given_up_for_another),
    (13, killing_for_ever),
    (13, fewer_tries),
]


@pytest.mark.parametrize(("number", "history"), BROKEN, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_broken_promise_is_named(number: int, history: History) -> None:
    books = Invariants(lambda: 0.0, only_events_kill=True)
    lane(books)

    history(books)

    assert number in {violation.number for violation in books.violations}, [str(one) for one in books.violations]


def test_every_promise_of_safety_can_be_broken() -> None:
    assert {number for number, _ in BROKEN} == {*range(1, 19), 23}
    assert set(NAMES) == set(range(1, 27))  # 19 to 22 are of liveness; 24 to 26 are broken in test_losing.py


def test_a_good_history_breaks_nothing() -> None:
    books = Invariants(lambda: 0.0)
    lane(books)

    deliver(books, 1)
    send(books, 2)
    books.unanswered(7, 2)  # the reply was lost …
    books.answered(7, 2, 1, landed=True)
    books.settled("w1", 1, 7)
    books.failed("w1", 1, 7, 2, 1, 0, 100, seen=True)
    books.sent("w1", 1, 7, 2, 2, 100, "e2", 0)  # … so that a second copy is excused
    books.settled("w1", 1, 7)
    books.died("w1", 1, 7, 2)
    books.replayed(7, 2, 2)
    books.owned(0, "w2", 2, unclean=True)
    deliver(books, 2, worker="w2", epoch=2)
    books.sent("w1", 1, 7, 2, 3, 0, "e2", 0)  # a zombie, late and harmless
    books.died("w2", 2, 7, 3)
    books.skipped(7, 3, 4, recorded=True)
    books.stored(7, 4, ["e1", "e2", "e3"])

    assert books.violations == []


def test_a_receivers_log_is_tallied() -> None:
    accepted = {"a": ["e1", "e2", "e3", "e4"], "b": ["f1", "f2"]}
    log = [
        Arrival("a", 1, "e1", 11, took=True),
        Arrival("b", 1, "f1", 21, took=False),
        Arrival("a", 1, "e1", 11, took=True),
        Arrival("a", 4, "e4", 14, took=True),
        Arrival("a", 3, "e3", 13, took=True),
        Arrival("b", 1, "f1", 99, took=True),
        Arrival("b", 7, "f7", 99, took=True),
    ]

    result = tally(accepted, log, {"a": {2}})

    assert (result.lost, result.reordered, result.duplicates) == (1, 1, 1)
    assert sorted(violation.number for violation in result.violations) == [2, 3, 17, 17]


def test_a_clean_log_has_nothing_to_tell() -> None:
    log = [Arrival("a", seq, f"e{seq}", seq, took=True) for seq in (1, 2, 4)]

    result = tally({"a": ["e1", "e2", "e3", "e4"]}, log, {"a": {3}})

    assert (result.lost, result.reordered, result.duplicates, result.violations) == (0, 0, 0, ())
