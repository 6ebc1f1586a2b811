"""What waits for a commit and what may, and which deliveries go out: a few at a time, while the lease lasts."""

from __future__ import annotations

from tests.units.core.kit import T0, endpoint, event
from tests.units.core.test_worker_ownership import ALL, PART, told
from tests.units.core.worker_kit import GRACE_MS, LEASE_MS, WorkerBench

from hooklane.core.engine import Committed, LeaseSet, Settled
from hooklane.core.worker.ownership import LET_GO_POLL_MS
from hooklane.core.worker.sending import SENDS_AT_ONCE
from hooklane.core.worker.writing import AGAIN_MS, AGAIN_MS_MAX, COMMIT_MAX, FEW, LINGER_MS, PATIENT_MS, can_wait
from hooklane.model.attempt import DELIVERED, Cancel, Dead, Retry, Send, Settlement
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.exchange import Answer, Timings
from hooklane.model.owning import CommitReport


def write(lane: int, *, wait_ms: int = 0, pid: int = 0) -> Settlement:
    """An outcome: delivered, or a retry after *wait_ms*."""
    send = Send(lane, pid, 1, 0, f"k{lane}", 1, 0, 1, event(1), endpoint(), T0)
    outcome = Retry(Instant(T0 + wait_ms), "503") if wait_ms else DELIVERED
    return Settlement(send, outcome, T0, Answer(200, Timings(1.0)))


def patient(*lanes: int, pid: int = 0) -> list[Settlement]:
    return [write(lane, wait_ms=60_000, pid=pid) for lane in lanes]


def urgent(*lanes: int, pid: int = 0) -> list[Settlement]:
    return [write(lane, pid=pid) for lane in lanes]


def lanes_of(bench: WorkerBench) -> list[int]:
    """The lanes of the commit that is under way."""
    return [one.lane_id for one in bench.call("commit").args[2]]


def add(bench: WorkerBench, *writes: Settlement) -> None:
    bench.worker.writing.add(writes)
    bench.turn()


def known(bench: WorkerBench) -> None:
    bench.answer("commit", CommitReport(T0))


# --- what waits for a commit ---


def test_only_a_retry_that_is_not_due_soon_can_wait() -> None:
    soon = write(1, wait_ms=PATIENT_MS - 1)
    later = write(1, wait_ms=PATIENT_MS)

    assert [can_wait(one) for one in (urgent(1)[0], soon, later)] == [False, False, True]
    assert not can_wait(Settlement(later.send, Dead("gone"), T0, None))
    assert not can_wait(Cancel(1, 0, 1, 2, 0))


def test_what_gathers_while_a_commit_is_under_way_makes_the_next_in_order() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    add(bench, *urgent(2, 3))
    add(bench, *urgent(4))
    assert lanes_of(bench) == [1]
    known(bench)

    assert lanes_of(bench) == [2, 3, 4]
    known(bench)
    assert bench.worker.writing.is_idle


def test_a_commit_has_a_bound() -> None:
    bench = WorkerBench()
    add(bench, *urgent(*range(COMMIT_MAX + 5)))

    assert len(lanes_of(bench)) == COMMIT_MAX
    known(bench)
    assert len(lanes_of(bench)) == 5


def test_a_commit_has_its_bound_also_with_some_that_can_wait() -> None:
    bench = WorkerBench()
    add(bench, *patient(*range(FEW)), *urgent(*range(100, 100 + COMMIT_MAX)))

    assert len(lanes_of(bench)) == COMMIT_MAX
    known(bench)
    assert len(lanes_of(bench)) == FEW


def test_what_can_wait_goes_with_the_next_that_cannot_once_it_is_time() -> None:
    bench = WorkerBench()
    add(bench, *patient(1, 2))
    add(bench, *urgent(3))
    assert lanes_of(bench) == [3], "or most commits would be longer where many fail"
    bench.later(LINGER_MS)
    add(bench, *urgent(4))
    known(bench)

    assert lanes_of(bench) == [4, 1, 2]


def test_a_line_of_commits_does_not_put_off_what_can_wait() -> None:
    bench = WorkerBench()
    add(bench, *patient(1))
    for lane in range(100, 100 + LINGER_MS):
        add(bench, *urgent(lane))
        assert lanes_of(bench) == [lane]
        bench.later(1)
        known(bench)

    assert lanes_of(bench) == [1]


def test_what_can_wait_goes_by_itself_after_a_moment() -> None:
    bench = WorkerBench()
    add(bench, *patient(1))
    assert bench.effects.wake_at == bench.boot + LINGER_MS
    bench.later(LINGER_MS - 1)
    assert not bench.is_open("commit")

    bench.later(1)

    assert lanes_of(bench) == [1]


def test_the_moment_of_what_can_wait_begins_anew_after_each_commit() -> None:
    bench = WorkerBench()
    add(bench, *patient(1))
    bench.later(LINGER_MS)
    known(bench)
    add(bench, *patient(2))
    bench.later(LINGER_MS - 1)

    assert not bench.is_open("commit")


def test_a_few_that_can_wait_need_not() -> None:
    bench = WorkerBench()
    add(bench, *patient(*range(FEW)))

    assert lanes_of(bench) == list(range(FEW))


def test_only_a_few_that_can_wait_lengthen_a_commit_and_all_get_their_turn() -> None:
    bench = WorkerBench()
    many = list(range(100, 100 + 3 * FEW))
    add(bench, *patient(*many), *urgent(1, 2))
    assert lanes_of(bench) == [1, 2, *many[:FEW]]
    bench.worker.writing.add(urgent(3))
    known(bench)
    assert lanes_of(bench) == [3, *many[FEW : 2 * FEW]]
    known(bench)

    assert lanes_of(bench) == many[2 * FEW :]


def test_a_long_line_of_what_can_wait_is_worked_off_in_large_parts() -> None:
    bench = WorkerBench()
    add(bench, *patient(*range(64 * FEW)))

    assert len(lanes_of(bench)) == 4 * FEW


def test_what_was_decided_for_a_lost_partition_is_not_written_under_a_later_epoch() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    bench.worker.writing.add([*urgent(2, pid=7), *urgent(3), *patient(4, pid=7), *patient(5)])

    bench.worker.ownership._drop(frozenset({7}))
    known(bench)
    assert lanes_of(bench) == [3]
    bench.later(LINGER_MS)
    known(bench)

    assert lanes_of(bench) == [5]


# --- what can wait does not wait where something waits for it ---


MANY = list(range(100, 100 + 3 * FEW))
"""More than join a commit otherwise."""


def test_a_worker_that_is_stopped_writes_at_once_what_can_wait() -> None:
    bench = WorkerBench()
    bench.worker.stop(bench.boot)

    add(bench, *patient(*MANY))

    assert lanes_of(bench) == MANY
    known(bench)
    assert bench.effects.is_drained


def test_a_worker_whose_lease_is_lost_offers_at_once_what_can_wait() -> None:
    bench = WorkerBench()
    bench.later(PART)
    add(bench, *urgent(1))
    bench.worker.writing.add(patient(*MANY))
    bench.tell(bench.call("renew"), None)
    bench.turn()
    known(bench)
    assert (lanes_of(bench), bench.call("commit").args[0], bench.worker.name) == (MANY, "a1", "a1")

    known(bench)

    assert bench.worker.name == "a2"


def test_what_can_wait_is_written_at_once_where_partitions_are_given_back() -> None:
    one = WorkerBench()
    WorkerBench(one)
    one.later(PART)
    one.settle("renew", "roster")

    add(one, *patient(1))

    assert lanes_of(one) == [1]
    known(one)
    one.later(LET_GO_POLL_MS)
    one.settle("release")
    add(one, *patient(2))
    assert not one.is_open("commit"), "what is left is not waited for"


def test_a_commit_has_its_bound_also_at_once() -> None:
    bench = WorkerBench()
    bench.worker.stop(bench.boot)
    add(bench, *patient(*range(COMMIT_MAX + 5)))

    assert len(lanes_of(bench)) == COMMIT_MAX
    known(bench)
    assert len(lanes_of(bench)) == 5


# --- a commit whose fate is unknown ---


def test_a_failed_commit_is_repeated_as_it_was_until_it_is_known() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    before = bench.call("commit").args
    waits = []
    for _ in range(8):
        bench.worker.writing.add(urgent(2))
        bench.worker.epochs.pop(9, None)
        bench.fail("commit", roll=0.5)
        waits.append(bench.worker.writing.wake_at() - bench.boot)
        bench.later(waits[-1] - 1)
        assert not bench.is_open("commit")
        bench.later(1)
        assert bench.call("commit").args == before

    assert waits == [AGAIN_MS << n for n in range(6)] + [AGAIN_MS_MAX] * 2
    known(bench)
    assert lanes_of(bench) == [2] * 8


def test_a_commit_is_repeated_once_for_each_time_that_it_failed() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    bench.fail("commit")
    bench.later(AGAIN_MS)

    bench.later(AGAIN_MS_MAX)

    assert len([call for call in bench.open if call.verb == "commit"]) == 1
    assert bench.worker.writing.wake_at() == FOREVER


def test_a_commit_that_is_not_repeated_because_the_lease_is_lost_is_waited_for_no_more() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    bench.fail("commit")
    bench.worker.state.name = "another"

    bench.turn()

    assert bench.worker.writing.is_idle
    assert bench.worker.writing.wake_at() == FOREVER


def test_workers_whose_commits_failed_at_one_moment_do_not_repeat_them_at_one_moment() -> None:
    waits = []
    for roll in (0.0, 0.5, 0.99):
        bench = WorkerBench()
        add(bench, *urgent(1))
        bench.fail("commit", roll)
        waits.append(bench.worker.writing.wake_at() - bench.boot)

    assert waits == [AGAIN_MS // 2, AGAIN_MS, int(AGAIN_MS * 1.49)]


def test_what_is_known_is_offered_under_the_old_name_and_epochs_before_a_lost_lease_is_given_up() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    bench.fail("commit")
    bench.later(PART)
    bench.fail("commit")
    bench.tell(bench.call("renew"), None)
    add(bench, *urgent(2))
    assert bench.worker.name == "a1", "nothing is forgotten while something known is not written"

    bench.later(3 * AGAIN_MS)
    assert (lanes_of(bench), bench.call("commit").args[:2]) == ([1], ("a1", dict.fromkeys(ALL, 1)))
    known(bench)
    assert (lanes_of(bench), bench.call("commit").args[0]) == ([2], "a1")
    known(bench)

    assert bench.worker.name == "a2"


def test_a_store_that_stays_away_is_not_offered_anything_for_long_after_the_lease() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    bench.later(PART)
    bench.fail("commit")
    bench.tell(bench.call("renew"), None)
    bench.later(PART - 1)
    assert bench.worker.name == "a1"
    bench.fail("commit")

    bench.later(1)
    add(bench, *urgent(2))

    assert (lanes_of(bench), bench.call("commit").args[0]) == ([2], "a2")


def test_nothing_more_is_sent_while_what_is_known_is_offered() -> None:
    bench = WorkerBench(lanes=3)
    bench.settle("fetch")
    sent = len(bench.sends)
    bench.end(bench.sends[0])
    bench.turn()
    bench.later(PART)
    bench.tell(bench.call("renew"), None)
    bench.publish(5)
    bench.worker.nudge()
    bench.turn()
    bench.settle("poll", "reload", "fetch")

    assert (len(bench.sends), bench.worker.name) == (sent, "a1")


def test_the_engine_hears_at_once_that_a_lost_lease_is_over_and_the_wait_has_one_end() -> None:
    bench = WorkerBench()
    bench.later(PART)
    add(bench, *urgent(1))
    lost_at = bench.boot

    bench.tell(bench.call("renew"), None)
    [*_, lease] = told(bench, LeaseSet)
    assert lease.until <= bench.worker.ownership._state.now(bench.boot)
    assert bench.worker.ownership.wake_at() == lost_at + PART
    bench.later(PART - 1)
    bench.worker.ownership.mark_lost(bench.boot)  # another reason does not make it wait for longer
    assert bench.worker.name == "a1"
    bench.later(1)

    assert bench.worker.name == "a2"


def test_a_commit_that_is_under_way_is_waited_for_also_when_the_lease_is_lost() -> None:
    bench = WorkerBench()
    bench.later(PART)
    add(bench, *urgent(1))
    bench.tell(bench.call("renew"), None)
    bench.later(PART)
    assert bench.worker.name == "a2"
    add(bench, *urgent(2))
    assert lanes_of(bench) == [1]

    known(bench)

    assert lanes_of(bench) == [2]


def test_a_report_that_comes_under_another_name_is_not_told() -> None:
    bench = WorkerBench()
    bench.later(PART)
    add(bench, *urgent(1))
    bench.tell(bench.call("renew"), None)
    bench.later(PART)
    assert bench.worker.name == "a2"

    bench.tell(bench.call("commit"), CommitReport(T0))

    assert told(bench, Committed) == []
    assert bench.turn().recorded == []


def test_what_is_durable_is_told_to_the_engine_and_to_those_who_listen() -> None:
    bench = WorkerBench()
    add(bench, *urgent(1))
    report = CommitReport(T0, stale=frozenset({1}))
    call = bench.call("commit")
    bench.tell(call, report)

    assert told(bench, Committed) == [Committed(call.args[2], frozenset(), frozenset({1}), bench.worker.epochs)]
    assert bench.turn().recorded == [(call.args[2], report)]
    assert bench.turn().recorded == []


# --- sending ---


def sending(lanes: int = 3 * SENDS_AT_ONCE) -> WorkerBench:
    """So many heads are in memory, and the first few have been sent."""
    bench = WorkerBench()
    bench.sends_all = False
    published = bench.publish(lanes)
    bench.worker.fed(published.grown, published.span)
    bench.turn()
    return bench


def test_deliveries_go_out_a_few_at_a_time() -> None:
    bench = sending()
    assert bench.effects.has_more
    counts = [len(bench.sends)]
    while bench.worker.sending.has_more:
        counts.append(len(bench.worker.next_sends(bench.boot)))

    assert counts == [SENDS_AT_ONCE] * 3


def test_where_all_went_out_at_once_there_is_no_more_to_ask_for() -> None:
    bench = sending(SENDS_AT_ONCE)

    assert (len(bench.sends), bench.effects.has_more) == (SENDS_AT_ONCE, False)


def test_a_turn_in_between_does_not_send_what_the_shell_will_ask_for() -> None:
    bench = sending()

    effects = bench.turn()

    assert (effects.sends, effects.has_more) == ([], False)


def test_what_waits_to_be_sent_is_held_back_when_the_lease_is_over_and_goes_on_with_the_next() -> None:
    bench = sending()
    bench.world.now += LEASE_MS

    assert bench.worker.next_sends(bench.boot) == []
    bench.turn()
    assert len(bench.sends) == SENDS_AT_ONCE
    bench.worker.state.lease_until = Instant(T0 + bench.boot + LEASE_MS)
    bench.turn()

    assert len(bench.sends) == 2 * SENDS_AT_ONCE
    assert bench.effects.has_more


def test_what_was_never_sent_gives_its_place_back_when_its_partition_is_lost() -> None:
    bench = sending()
    assert bench.engine.in_flight == 3 * SENDS_AT_ONCE

    bench.worker.ownership._drop(ALL)
    void = [one.send for one in told(bench, Settled)]
    bench.turn()

    assert len(void) == 2 * SENDS_AT_ONCE
    assert not {id(send) for send in void} & {id(send) for send in bench.sends}
    assert bench.engine.in_flight == SENDS_AT_ONCE
    assert bench.worker.next_sends(bench.boot) == []


def test_what_waits_in_other_partitions_is_sent_all_the_same() -> None:
    bench = sending()
    lost = frozenset(pid for pid in ALL if pid % 2)
    bench.worker.ownership._drop(lost)
    assert {one.send.pid for one in told(bench, Settled)} <= lost, "only what is lost was never sent"
    bench.sends_all = True
    before = len(bench.sends)
    bench.turn()

    assert bench.sends[before:]
    assert not {send.pid for send in bench.sends[before:]} & lost


# --- draining ---


def test_a_worker_that_is_not_stopped_is_neither_drained_nor_cut_off() -> None:
    bench = WorkerBench()

    assert not bench.turn().is_drained
    assert not bench.worker.is_cut_off


def test_a_worker_that_was_drained_in_time_is_not_cut_off_later() -> None:
    bench = WorkerBench()
    bench.worker.stop(bench.boot)
    assert bench.turn().is_drained

    bench.later(GRACE_MS)

    assert not bench.worker.is_cut_off


def test_a_worker_that_is_stopped_is_drained_when_the_last_outcome_is_durable() -> None:
    bench = WorkerBench(lanes=3)
    bench.settle("fetch")
    bench.worker.stop(bench.boot)
    assert not bench.turn().is_drained
    for send in bench.sends:
        bench.end(send)
    assert not bench.turn().is_drained, "the outcomes are being written"
    bench.publish(1)

    effects = bench.answer("commit")

    assert effects.is_drained
    assert not bench.worker.is_cut_off


def test_a_worker_that_is_stopped_sends_nothing_more() -> None:
    bench = WorkerBench()
    bench.worker.stop(bench.boot)
    published = bench.publish(3)
    bench.worker.fed(published.grown, published.span)

    effects = bench.turn()

    assert (effects.sends, effects.is_drained) == ([], True)


def test_what_is_in_flight_for_too_long_is_cut_off() -> None:
    bench = WorkerBench(lanes=3)
    bench.settle("fetch")
    bench.worker.stop(bench.boot)
    effects = bench.turn()
    assert effects.wake_at <= bench.boot + GRACE_MS
    assert not bench.later(GRACE_MS - 1).is_drained

    assert bench.later(1).is_drained
    assert bench.worker.is_cut_off


def test_what_is_not_quiet_when_the_engine_is_told_more_is_not_drained() -> None:
    bench = WorkerBench(lanes=3)
    bench.settle("fetch")
    bench.worker.stop(bench.boot)
    bench.turn()
    for send in bench.sends:
        bench.end(send)
    bench.turn()

    bench.fail("commit")

    assert not bench.effects.is_drained
