"""Which partitions are a worker's, and until when: joining, sharing, giving back, and starting anew."""

from __future__ import annotations

from dataclasses import replace

from tests.units.core.kit import T0, endpoint, event, row
from tests.units.core.worker_kit import LEASE_MS, WorkerBench

from hooklane.core.engine import (
    Committed,
    Dropped,
    EndpointChanged,
    Jumped,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    StartedAnew,
)
from hooklane.core.worker import ClockSet, LeaseLost, Lost, MarkLost
from hooklane.core.worker.ownership import AGAIN_MS, FORMER_MAX, LET_GO_POLL_MS, LOADED_FIRST, RENEWALS, SAFE_PART
from hooklane.core.worker.reading import REST_MS
from hooklane.core.worker.state import SLACK_MS
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.health import BreakerState, Health
from hooklane.model.jumps import NO_JUMP
from hooklane.model.lane import PARTITIONS, Grown, LaneId
from hooklane.model.lost import LostLane
from hooklane.model.owning import CommitReport, Roster, Taken
from hooklane.model.session import Session

ALL = frozenset(range(PARTITIONS))
PART = LEASE_MS // RENEWALS


def told(bench: WorkerBench, kind: type) -> list:
    return [one for one in bench.worker.inputs if isinstance(one, kind)]


def renew(bench: WorkerBench) -> None:
    """The next renewal, with what follows from it."""
    bench.later(PART)
    bench.settle()


# --- joining and renewing ---


def test_a_worker_joins_takes_all_that_is_free_and_is_ready_when_that_is_loaded() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    assert not bench.worker.is_ready

    bench.answer("load")
    assert bench.worker.is_ready
    bench.settle("load")

    assert set(bench.worker.epochs) == ALL
    assert bench.engine.epochs == bench.worker.epochs


def test_a_lease_counts_from_when_it_was_asked_for_and_ends_a_little_early() -> None:
    bench = WorkerBench()
    bench.later(PART)
    asked = bench.boot
    bench.world.now += 400

    bench.answer("renew")

    assert bench.worker.state.lease_until == T0 + asked + int(LEASE_MS * SAFE_PART)


def test_what_a_worker_owns_is_its_share_of_the_limits() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    bench.tell(bench.call("load"), bench.carry_out(bench.call("load")))
    assert [one.share for one in told(bench, LeaseSet)] == [LOADED_FIRST / PARTITIONS]

    while len(bench.worker.epochs) < PARTITIONS:
        bench.turn()
        bench.tell(bench.call("load"), bench.carry_out(bench.call("load")))

    assert [one.share for one in told(bench, LeaseSet)] == [1.0]


def test_a_lease_is_renewed_four_times_in_its_life_and_later_where_the_store_was_away() -> None:
    bench = WorkerBench()
    assert not bench.is_open("renew")
    bench.later(PART - 1)
    assert not bench.is_open("renew")
    bench.later(1)
    bench.fail("renew")

    bench.later(AGAIN_MS + PART - 1)
    assert not bench.is_open("renew")
    bench.later(1)

    assert bench.is_open("renew")


def test_an_expired_lease_is_never_revived() -> None:
    bench = WorkerBench()
    bench.later(PART)
    bench.world.now += LEASE_MS

    bench.tell(bench.call("renew"), None)

    assert (bench.worker.name, bench.worker.epochs) == ("a2", {})
    assert told(bench, Dropped) == [Dropped(ALL)]
    assert told(bench, StartedAnew)
    bench.turn()
    assert bench.notes == [LeaseLost()]
    assert bench.call("join").args[0] == "a2"
    bench.settle()
    assert set(bench.worker.epochs) == ALL


def test_only_one_step_is_under_way() -> None:
    bench = WorkerBench()
    bench.later(PART)
    bench.later(5 * PART)

    assert [one.verb for one in bench.open if one.verb != "poll"] == ["renew"]


# --- workers that are certainly gone ---


def test_a_worker_that_is_certainly_gone_is_not_waited_for() -> None:
    dead = WorkerBench(lanes=3)
    other = WorkerBench(dead, is_gone=lambda name: name == "a1")

    assert set(other.worker.epochs) == ALL
    assert all(epoch == 2 for epoch in other.worker.epochs.values())
    other.settle("fetch", "commit")
    assert len(other.sends) == 3


def test_while_a_worker_that_is_gone_is_expired_nothing_else_is_decided() -> None:
    dead = WorkerBench()
    other = WorkerBench(dead, start=False, is_gone=lambda name: name == "a1")
    other.turn()

    other.settle("join", "roster")

    assert other.steps == ["expire"]
    assert not other.worker.is_ready


def test_what_a_gone_worker_owned_is_taken_as_after_an_expiry() -> None:
    dead = WorkerBench(lanes=1)
    other = WorkerBench(dead, start=False, is_gone=lambda name: name == "a1")
    other.turn()
    other.settle("join", "roster", "expire")

    taken = other.carry_out(other.call("acquire"))

    assert len(taken) == PARTITIONS
    assert all(one.unclean for one in taken)


def test_a_living_worker_keeps_what_it_has_and_never_thinks_itself_gone() -> None:
    one = WorkerBench(is_gone=lambda name: True)
    assert set(one.worker.epochs) == ALL
    other = WorkerBench(one, is_gone=lambda name: False)

    assert other.worker.epochs == {}


# --- loading ---


def test_what_is_loaded_first_is_sent_while_the_rest_is_read() -> None:
    bench = WorkerBench(start=False, lanes=600)
    bench.turn()
    bench.settle("join", "roster", "acquire")

    bench.answer("load")
    bench.settle("fetch")

    assert {send.pid for send in bench.sends} == set(range(LOADED_FIRST))
    assert len(bench.call("load").args[1]) == 2 * LOADED_FIRST


def test_a_later_load_does_not_undo_what_became_of_an_endpoint_meanwhile() -> None:
    bench = WorkerBench(start=False, lanes=600)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    bench.answer("load")
    older = bench.carry_out(bench.call("load"))
    gone = replace(bench.engine.queues["ep"].endpoint, state=EndpointState.DISABLED)
    bench.worker.inputs.append(EndpointChanged(gone))
    bench.turn()

    bench.answer("load", older)

    assert bench.engine.queues["ep"].endpoint.state is EndpointState.DISABLED


def test_a_lease_is_renewed_while_much_is_loaded() -> None:
    bench = WorkerBench(start=False, lanes=600)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    for _ in range(4):
        bench.world.now += PART
        bench.answer("load")
        bench.settle("poll", "fetch")
        bench.answer("renew")
        assert not bench.is_open("roster"), "what is not loaded yet is no loss"
        bench.settle("poll")
    bench.settle()

    assert (bench.worker.name, set(bench.worker.epochs)) == ("a1", ALL)


def test_what_was_sent_while_much_is_loaded_is_not_forgotten_when_a_later_load_fails() -> None:
    bench = WorkerBench(start=False, lanes=600)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    bench.answer("load")
    bench.settle("fetch")

    bench.fail("load")

    assert (bench.worker.name, set(bench.worker.epochs)) == ("a1", set(range(LOADED_FIRST)))
    bench.later(AGAIN_MS + PART)
    bench.settle()
    renew(bench)
    assert (bench.worker.name, set(bench.worker.epochs)) == ("a1", ALL)


# --- the fair share ---


def test_an_acquire_whose_reply_was_lost_leaves_no_partition_without_an_owner() -> None:
    bench = WorkerBench()
    bench.world.now += LEASE_MS  # so that there is something to take
    bench.later(PART)
    bench.settle("poll", "renew", "join", "roster")
    bench.fail("acquire", carried_out=True)
    assert bench.worker.name == "a3", "it may have joined as a2, and own something: that name is left"

    bench.later(AGAIN_MS)
    bench.settle()

    assert set(bench.worker.epochs) == ALL


def test_what_the_store_says_is_ours_and_we_do_not_work_on_is_given_back() -> None:
    bench = WorkerBench()
    del bench.worker.epochs[3], bench.worker.epochs[200]
    bench.later(PART)
    bench.answer("renew")
    bench.answer("roster")

    assert bench.call("release").args == ("a1", [3, 200])
    bench.settle()
    renew(bench)
    assert set(bench.worker.epochs) == ALL


def test_two_workers_come_to_have_half_each() -> None:
    one = WorkerBench()
    other = WorkerBench(one)
    assert other.worker.epochs == {}

    one.later(PART)
    one.settle()
    one.later(LET_GO_POLL_MS)
    one.settle()
    renew(other)

    assert (len(one.worker.epochs), len(other.worker.epochs)) == (PARTITIONS // 2, PARTITIONS // 2)
    assert not set(one.worker.epochs) & set(other.worker.epochs)
    assert one.engine.epochs == one.worker.epochs


def test_a_worker_asks_for_no_partition_when_none_is_free() -> None:
    one = WorkerBench()
    other = WorkerBench(one, start=False)
    other.turn()

    other.settle("join", "roster")

    assert other.open == []
    assert other.worker.is_ready


def halved() -> WorkerBench:
    """A worker that has given half back; the other worker has not taken it yet."""
    one = WorkerBench()
    WorkerBench(one)
    one.later(PART)
    one.settle()
    one.later(LET_GO_POLL_MS)
    one.settle()
    return one


def test_a_worker_with_its_fair_share_takes_nothing_more_and_gives_nothing_back() -> None:
    one = halved()
    one.later(PART)
    one.settle("poll", "renew")
    assert one.store.roster().free == PARTITIONS // 2

    one.tell(one.call("roster"), one.carry_out(one.call("roster")))

    assert told(one, Leaving) == []
    one.turn()
    assert one.steps == []


def test_a_worker_takes_no_more_than_it_lacks_of_its_fair_share() -> None:
    one = halved()
    some = sorted(one.worker.epochs)[:8]
    one.store.release("a1", some)
    for pid in some:
        del one.worker.epochs[pid]
    one.later(PART)

    one.settle("poll", "renew", "roster")

    assert one.call("acquire").args == ("a1", 8)


def test_a_worker_that_is_not_in_the_roster_any_more_and_owns_nothing_gives_nothing_back() -> None:
    one = WorkerBench()
    other = WorkerBench(one)
    other.later(PART)
    other.answer("renew")

    other.answer("roster", Roster({"a1": PARTITIONS}, 0, T0))

    assert other.steps == []


def test_a_release_that_was_lost_is_made_up_for() -> None:
    one = WorkerBench()
    WorkerBench(one)
    one.later(PART)
    one.settle()
    one.later(LET_GO_POLL_MS)
    one.fail("release")

    one.later(AGAIN_MS + PART)
    one.answer("renew")
    one.answer("roster")

    assert len(one.call("release").args[1]) == PARTITIONS // 2


def test_a_worker_that_was_robbed_without_noticing_starts_anew() -> None:
    bench = WorkerBench()
    bench.store.release("a1", [1, 2, 3])
    bench.later(PART)
    bench.answer("renew")

    bench.tell(bench.call("roster"), bench.store.roster())

    assert bench.worker.name == "a2"
    assert told(bench, Dropped) == [Dropped(ALL)]


def test_what_was_acquired_is_read_after_the_acquire() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster")
    assert not bench.is_open("load")

    bench.answer("acquire")

    assert bench.call("load").args == ("a1", dict.fromkeys(range(LOADED_FIRST), 1))


def test_a_load_that_failed_keeps_nothing_of_what_was_acquired() -> None:
    bench = WorkerBench()
    bench.store.release("a1", [5])
    del bench.worker.epochs[5]
    bench.later(PART)
    bench.settle("poll", "renew", "roster", "acquire")
    assert bench.worker.news.is_loading
    bench.fail("load")

    assert 5 not in bench.worker.epochs
    bench.later(AGAIN_MS + PART)
    assert not bench.is_open("load"), "what was not loaded is not loaded later"
    bench.settle()
    renew(bench)
    assert set(bench.worker.epochs) == ALL


def test_what_is_busy_is_given_back_when_it_is_quiet() -> None:
    one = WorkerBench(lanes=600)
    one.settle("fetch")
    busy = {send.pid for send in one.sends} & set(range(PARTITIONS // 2, PARTITIONS))
    assert busy
    WorkerBench(one)
    one.later(PART)
    one.settle()

    one.later(LET_GO_POLL_MS)
    assert not one.is_open("release"), "something of it is in flight"
    for send in one.sends:
        one.end(send)
    one.turn()
    one.answer("commit")
    one.later(LET_GO_POLL_MS)

    assert len(one.call("release").args[1]) == PARTITIONS // 2
    one.tell(one.call("release"), None)
    assert [lease.share for lease in told(one, LeaseSet)] == [0.5]
    one.later(PART - 2 * LET_GO_POLL_MS - 1)
    assert not one.is_open("renew"), "all is well until the next renewal"
    one.later(1)
    assert one.is_open("renew")


def test_what_stays_busy_for_too_long_stays_ours_and_goes_on() -> None:
    one = WorkerBench(lanes=600)
    one.settle("fetch")
    WorkerBench(one)
    one.later(PART)
    one.settle()

    one.world.now += PART
    one.worker.ownership.go_on(one.boot)

    assert [one.pids for one in told(one, Leaving)] == [frozenset()]
    [dropped] = told(one, Dropped)
    assert not dropped.pids & {send.pid for send in one.sends}
    assert {send.pid for send in one.sends} <= set(one.worker.epochs)


def test_a_late_report_about_an_old_epoch_takes_no_partition_away() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    bench.end(bench.sends[0])
    bench.turn()
    bench.worker.epochs[8] += 1

    bench.tell(bench.call("commit"), CommitReport(T0, fenced=frozenset({7, 8})))

    assert (7 in bench.worker.epochs, 8 in bench.worker.epochs) == (False, True)


# --- starting anew ---


def lose_the_mark(bench: WorkerBench) -> None:
    bench.worker.nudge()
    bench.turn()
    news = bench.carry_out(bench.call("poll"))
    bench.answer("poll", replace(news, session=Session("another", "1", None, 0), mark_lives=False))


def test_a_worker_whose_mark_is_lost_leaves_under_its_old_name_and_comes_back_under_a_new_one() -> None:
    bench = WorkerBench()
    lose_the_mark(bench)

    assert bench.notes == [MarkLost(dict.fromkeys(range(PARTITIONS), 1))]
    assert (bench.worker.name, bench.worker.epochs, bench.worker.news.mark) == ("a2", {}, None)
    assert bench.call("leave").args == ("a1",)
    bench.answer("leave")
    assert bench.call("join").args[0] == "a2"
    bench.settle()
    assert set(bench.worker.epochs.values()) == {2}


def test_what_another_store_lost_of_what_was_sent_is_told_before_anything_is_loaded_there() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lost = [LostLane("default", "ep", "k0", ((1, "evt_0"),))]
    lose_the_mark(bench)
    was_asked_first = not bench.is_open("leave")

    bench.answer("account_for", lost)

    assert was_asked_first
    assert [note for note in bench.notes if isinstance(note, Lost)] == [Lost(lost)]
    assert bench.is_open("leave")


def test_a_store_is_asked_for_what_was_sent_once_more_when_the_first_load_from_it_is_there() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)
    bench.answer("account_for", [])
    bench.settle()
    owned_before = dict(bench.worker.epochs)

    bench.answer("account_for", [])
    bench.settle()

    assert owned_before == {}
    assert (len(bench.worker.epochs), bench.is_open("account_for")) == (PARTITIONS, False)


def test_each_time_that_everything_is_lost_the_store_is_asked_before_anything_is_loaded_and_after() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")

    asked = []
    for _ in range(2):
        lose_the_mark(bench)
        asked.append(bench.is_open("account_for"))
        bench.answer("account_for", [])
        bench.settle()
        asked.append(bench.is_open("account_for"))
        bench.answer("account_for", [])
        bench.settle()

    assert asked == [True] * 4
    assert set(bench.worker.epochs) == ALL


def test_lanes_that_jumped_after_they_were_loaded_are_loaded_again_under_another_name() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)
    bench.answer("account_for", [])
    bench.settle()

    bench.answer("account_for", [LostLane("default", "ep", "k0", ((1, "evt_0"),), next_seq=2)])

    assert (bench.worker.ownership.names, bench.worker.epochs) == (("a1", "a2", "a3"), {})
    assert bench.is_open("account_for"), "everything begins anew"


def test_what_was_lost_without_order_makes_no_load_void() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)
    bench.answer("account_for", [])
    bench.settle()

    bench.answer("account_for", [LostLane("default", "ep", None, ((1, "evt_0"),))])

    assert bench.worker.name == "a2"
    assert set(bench.worker.epochs) == set(range(LOADED_FIRST))


def test_a_load_that_could_not_be_checked_is_not_believed_after_the_next_start() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)
    bench.answer("account_for", [])
    bench.settle()
    bench.fail("account_for")
    bench.later(AGAIN_MS)

    bench.answer("account_for", [])

    assert bench.worker.epochs == {}
    assert bench.is_open("leave")


def test_where_nothing_was_lost_there_is_no_news_of_it() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)

    bench.answer("account_for", [])

    assert not any(isinstance(note, Lost) for note in bench.notes)


def test_what_a_process_published_before_its_worker_has_joined_is_asked_for_before_and_after_the_load() -> None:
    bench = WorkerBench(start=False)
    bench.worker.fed([Grown(1, 0, "ep", "k", 1, event(1))], None)
    bench.turn()
    asked = [bench.steps]

    bench.answer("account_for", [])
    bench.settle()
    asked.append(bench.steps)

    assert asked == [["account_for"]] * 2
    assert bench.worker.epochs == {}


def test_a_store_is_asked_for_what_this_process_published_and_others_sent() -> None:
    bench = WorkerBench()
    bench.worker.fed([Grown(1, 0, "ep", "k", 4, event(4))], None)

    lose_the_mark(bench)

    [place] = bench.call("account_for").args[0]
    assert (place.key, place.seq, place.event_id) == ("k", 4, "evt_k_4")


def test_what_was_asked_under_a_name_that_is_given_up_is_not_believed() -> None:
    bench = WorkerBench()
    bench.later(PART)
    bench.answer("poll")
    renewal = bench.call("renew")
    lose_the_mark(bench)
    assert not bench.is_open("leave"), "one step after the other"

    bench.tell(renewal, None)
    bench.turn()

    assert bench.worker.name == "a2"
    assert bench.is_open("leave")


def test_a_failure_of_what_was_asked_under_a_name_that_is_given_up_changes_nothing() -> None:
    bench = WorkerBench()
    bench.later(PART)
    bench.answer("poll")
    lose_the_mark(bench)

    bench.fail("renew")

    assert bench.worker.name == "a2"
    assert bench.is_open("leave")


def test_a_name_under_which_coming_back_failed_is_left_before_the_next_try() -> None:
    bench = WorkerBench()
    lose_the_mark(bench)
    bench.answer("leave")
    bench.fail("join", carried_out=True)
    assert bench.worker.name == "a3"
    bench.later(AGAIN_MS - 1)
    assert not bench.is_open("leave")

    bench.later(1)
    left = [bench.call("leave").args[0]]
    bench.answer("leave")
    left.append(bench.call("leave").args[0])
    bench.answer("leave")

    assert left == ["a1", "a2"]
    assert bench.call("join").args[0] == "a3"


def test_a_leave_that_fails_is_tried_again_under_the_same_name() -> None:
    bench = WorkerBench()
    lose_the_mark(bench)
    bench.fail("leave")
    assert bench.worker.name == "a2"

    bench.later(AGAIN_MS)

    assert bench.call("leave").args == ("a1",)


def test_all_names_are_left_at_the_end_and_the_last_few_are_remembered() -> None:
    bench = WorkerBench()
    for _ in range(FORMER_MAX + 4):
        lose_the_mark(bench)
        bench.settle()

    names = [f"a{n}" for n in range(5, FORMER_MAX + 6)]
    assert bench.worker.ownership.names == tuple(names)


def test_what_was_to_be_given_back_is_forgotten_with_the_rest() -> None:
    one = WorkerBench()
    WorkerBench(one)
    one.later(PART)
    one.answer("poll")
    one.settle()
    lose_the_mark(one)

    assert one.is_open("leave")
    assert not one.is_open("release")


def test_a_load_that_waits_for_a_poll_is_forgotten_with_the_rest() -> None:
    bench = WorkerBench()
    bench.store.release("a1", [5])
    del bench.worker.epochs[5]
    bench.later(PART)
    bench.settle("renew", "roster", "acquire")
    assert not bench.is_open("load"), "a poll is under way"

    news = bench.carry_out(bench.call("poll"))
    bench.answer("poll", replace(news, session=Session("another", "1", None, 0), mark_lives=False))

    assert [one.verb for one in bench.open] == ["leave"]


def test_a_lease_that_is_renewed_while_everything_is_given_up_starts_nothing() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    bench.end(bench.sends[0])
    bench.turn()
    bench.later(PART)
    bench.answer("poll")
    lose_the_mark(bench)
    assert bench.worker.ownership.waits_for_outcomes

    bench.tell(bench.call("renew"), bench.carry_out(bench.call("renew")))

    assert told(bench, LeaseSet) == []
    assert bench.worker.sending.is_held_back(bench.boot)


def test_nothing_is_asked_for_ownership_while_everything_is_given_up() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    bench.later(PART // 2)
    bench.answer("poll")
    bench.end(bench.sends[0])
    bench.turn()
    lose_the_mark(bench)

    bench.later(PART - PART // 2)

    assert bench.worker.name == "a1"
    assert bench.steps == []


def test_a_name_under_which_the_store_was_only_asked_for_what_was_sent_is_kept_when_that_fails() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    lose_the_mark(bench)

    bench.fail("account_for")

    assert bench.worker.ownership.names == ("a1", "a2")


def test_a_worker_that_owns_nothing_renews_its_lease() -> None:
    one = WorkerBench()
    other = WorkerBench(one)
    assert other.worker.epochs == {}
    assert other.worker.state.share == 1 / PARTITIONS

    other.later(PART)

    assert [call.verb for call in other.open] == ["renew"]


def test_where_others_were_first_nothing_is_loaded() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster")

    bench.answer("acquire", [])

    assert bench.open == []
    assert bench.worker.is_ready


def test_a_worker_whose_first_load_waits_for_a_poll_renews_its_lease_and_does_not_join_once_more() -> None:
    """Who joins under a name that owns something lets that go: what is loaded then would be nobody's."""
    bench = WorkerBench()
    bench.later(2 * LEASE_MS)
    bench.settle("renew", "join", "roster", "acquire")
    assert bench.is_open("poll"), "it was asked for under the old name"
    assert not bench.is_open("load")

    bench.later(PART)

    assert [call.verb for call in bench.open] == ["poll", "renew"]


def test_a_worker_whose_load_waits_for_a_poll_wakes_to_renew_its_lease() -> None:
    bench = WorkerBench()
    bench.store.release("a1", [5])
    del bench.worker.epochs[5]
    bench.later(PART)
    bench.settle("renew", "roster", "acquire")
    assert bench.is_open("poll")
    assert not bench.is_open("load")

    assert bench.effects.wake_at == bench.boot + PART


def test_after_a_loss_the_rules_of_endpoints_are_those_of_the_store_that_is_there() -> None:
    bench = WorkerBench()
    assert bench.store.change(endpoint("ep", in_flight_max=7), endpoint("ep", in_flight_max=512))

    lose_the_mark(bench)
    bench.settle()

    assert bench.engine.queues["ep"].endpoint.in_flight_max == 7


def test_the_engine_is_told_whether_the_last_owner_let_go() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster")
    bench.answer("acquire", [Taken(5, 1, unclean=True), Taken(6, 1, unclean=False)])

    bench.tell(bench.call("load"), bench.carry_out(bench.call("load")))

    assert [(one.pid, one.unclean) for one in told(bench, Loaded)] == [(5, True), (6, False)]


def test_a_worker_has_loaded_when_all_that_it_took_is_there() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    assert (bench.worker.is_ready, bench.worker.has_loaded) == (False, False)
    bench.settle("join", "roster", "acquire")
    bench.answer("load")
    assert (bench.worker.is_ready, bench.worker.has_loaded) == (True, False)

    bench.settle()

    assert bench.worker.has_loaded


def test_a_rate_limit_outlives_a_time_in_which_nothing_is_ours() -> None:
    bench = WorkerBench()
    assert bench.store.change(endpoint("ep", rate_limit=5.0), endpoint("ep", in_flight_max=512))
    bench.worker.nudge()
    bench.turn()
    bench.answer("poll")
    lose_the_mark(bench)

    bench.settle()

    assert set(bench.worker.epochs) == ALL


# --- clocks ---


def test_a_clock_that_was_set_before_the_first_lease_is_no_jump() -> None:
    bench = WorkerBench(start=False)
    bench.store.skew = 3_600_000
    bench.turn()
    bench.settle()

    assert bench.notes == []
    assert bench.worker.state.now(bench.boot) == T0 + bench.boot + 3_600_000


def test_a_lease_goes_on_as_long_as_before_when_the_stores_clock_is_set() -> None:
    bench = WorkerBench()
    until = bench.worker.state.lease_until
    bench.later(100)
    bench.store.skew = -7_200_000
    call = bench.call("poll")

    bench.tell(call, bench.carry_out(call))

    assert told(bench, Jumped) == [Jumped(-7_200_000)]
    assert bench.worker.state.lease_until == until - 7_200_000
    assert told(bench, LeaseSet)[-1].until == until - 7_200_000
    bench.turn()
    assert bench.notes == [ClockSet(-7_200_000)]


def test_a_small_difference_of_clocks_is_not_followed() -> None:
    for skew in (SLACK_MS, -SLACK_MS):
        bench = WorkerBench()
        bench.later(100)
        bench.store.skew = skew

        bench.answer("poll")

        assert bench.worker.state.now(bench.boot) == T0 + bench.boot


def waiting_after_a_jump(bench: WorkerBench, jump_ms: int) -> int:
    """How long a head goes on waiting that waited for 60 s, when the lease is lost by a clock that was set."""
    bench.later(100)
    bench.store.skew = jump_ms
    bench.answer("poll")
    bench.later(PART)
    bench.settle("poll", "renew", "leave", "join", "roster", "acquire")
    call = bench.call("load")
    load = bench.carry_out(call)
    waiting = row(1, pid=7, next_at=T0 + bench.boot + 60_000)
    bench.tell(call, replace(load, lanes={**load.lanes, 7: [waiting]}))
    [lane] = [lane for one in told(bench, Loaded) for lane in one.lanes]
    return lane.next_at - bench.worker.state.now(bench.boot)


def test_what_waited_when_the_clock_was_set_forward_waits_as_long_after_a_lost_lease() -> None:
    assert waiting_after_a_jump(WorkerBench(), 3_600_000) == 60_000


def waiting_for(bench: WorkerBench, *, failed_ms_ago: int, jump_ms: int) -> int:
    """How long a head waits that failed so long ago and was to be tried after 20 ms, when a worker joins anew."""
    bench.later(100)
    bench.store.skew = jump_ms
    bench.later(PART)
    bench.settle("poll", "renew", "leave", "join", "roster", "acquire")
    call = bench.call("load")
    load = bench.carry_out(call)
    failed = row(1, pid=7, next_at=T0 + bench.boot + jump_ms - failed_ms_ago + 20)
    bench.tell(call, replace(load, lanes={**load.lanes, 7: [failed]}))
    [lane] = [lane for one in told(bench, Loaded) for lane in one.lanes]
    return lane.next_at - bench.worker.state.now(bench.boot)


def test_what_failed_after_the_clock_was_set_forward_is_due_by_the_new_clock() -> None:
    assert waiting_for(WorkerBench(), failed_ms_ago=300, jump_ms=3_600_000) == -280


def test_a_head_that_waited_nearly_as_long_as_the_clock_was_set_waits_on_however_long_its_worker_has_run() -> None:
    bench = WorkerBench()
    for _ in range(20):
        renew(bench)

    assert waiting_for(bench, failed_ms_ago=5_020, jump_ms=3_600_000) == 3_600_000 - 5_000


def test_a_clock_that_was_set_forward_is_made_up_for_until_the_next_renewal_and_not_after_it() -> None:
    bench = WorkerBench()
    bench.later(100)
    bench.store.skew = 3_600_000
    bench.answer("poll")
    bench.store.tables.workers["a1"] += 3_600_000
    renew(bench)
    bench.store.release("a1", [7])
    del bench.worker.epochs[7]
    renew(bench)
    renew(bench)

    assert bench.worker.ownership._forward is NO_JUMP


def test_the_store_notes_a_clock_that_was_set_forward_at_once_so_that_it_knows_when_that_is_set_back() -> None:
    bench = WorkerBench()
    bench.later(100)
    bench.store.skew = 60_000

    bench.answer("poll")
    bench.turn()

    assert bench.is_open("renew")


def is_loaded_after(bench: WorkerBench, *verbs: str) -> bool:
    """Whether partitions are loaded when *verbs* are answered in that order, by a store whose clock was set back."""
    bench.store.release("a1", [7])
    del bench.worker.epochs[7]
    bench.later(PART)
    bench.settle("renew", "roster")
    bench.turn()
    bench.store.skew = -3_600_000
    for verb in verbs:
        bench.tell(bench.call(verb), bench.carry_out(bench.call(verb)))
    bench.turn()
    return bench.is_open("load")


def test_what_a_store_whose_clock_was_set_back_has_not_moved_yet_is_not_loaded() -> None:
    bench = WorkerBench()
    assert not is_loaded_after(bench, "poll", "acquire")

    bench.answer("renew")

    assert bench.is_open("load")


def test_nor_where_the_clock_was_found_set_back_when_there_was_something_to_load_already() -> None:
    assert not is_loaded_after(WorkerBench(), "acquire", "poll")


def test_a_lane_that_was_read_while_the_lease_was_renewed_is_believed() -> None:
    bench = WorkerBench(lanes=1)
    bench.worker.wake([1])
    bench.turn()
    bench.later(PART)

    bench.answer("renew")
    bench.tell(bench.call("reload"), [])

    assert len(told(bench, Reloaded)) == 1


def test_a_clock_that_is_found_set_while_the_roster_is_read_is_noted_by_a_renewal_at_once() -> None:
    bench = WorkerBench()
    bench.later(PART)
    bench.answer("renew")
    bench.store.skew = 60_000
    bench.answer("poll")
    assert bench.steps == ["roster"]

    bench.answer("roster", Roster({"a1": PARTITIONS}, 0, T0))

    assert bench.steps == ["renew"]


def test_a_lane_that_was_read_before_the_times_in_the_store_were_moved_is_read_again() -> None:
    bench = WorkerBench(lanes=1)
    bench.worker.wake([1])
    bench.turn()
    early = bench.call("reload")
    bench.later(100)
    bench.store.skew = -3_600_000
    bench.answer("poll")
    bench.settle("renew")
    bench.tell(early, bench.carry_out(early))

    assert told(bench, Reloaded) == []
    bench.later(REST_MS)
    bench.tell(bench.call("reload"), bench.carry_out(bench.call("reload")))
    assert len(told(bench, Reloaded)) == 1


def test_committed_is_told_with_what_was_ours_when_it_was_written() -> None:
    bench = WorkerBench(lanes=1)
    bench.settle("fetch")
    bench.end(bench.sends[0])
    bench.turn()
    before = dict(bench.worker.epochs)
    bench.worker.epochs[8] += 1

    bench.tell(bench.call("commit"), CommitReport(T0))

    assert told(bench, Committed)[0].epochs == before


def test_a_worker_that_takes_partitions_over_leaves_alone_what_others_found_ill() -> None:
    before = WorkerBench(lanes=1)
    until = Instant(T0 + 5_000)
    before.store.note_health([Health("ep", 1, BreakerState.OPEN, until, by=before.worker.name)])

    after = WorkerBench(beside=before, start=False)
    before.worker.stop(before.boot)
    before.store.leave(before.worker.name)
    after.turn()
    after.settle()
    after.settle("fetch")

    queue = after.engine.queues["ep"]
    assert (queue.breaker.state, queue.breaker.until) == (BreakerState.OPEN, until)
    assert after.sends == []


def test_what_is_taken_later_is_loaded_a_few_partitions_at_a_time_as_well() -> None:
    first = WorkerBench()
    second = WorkerBench(beside=first)
    for _ in range(8):
        for one in (first, second):
            one.later(PART // 2)
            one.settle()
    assert LOADED_FIRST < len(second.worker.epochs) < PARTITIONS

    first.store.leave(first.worker.name)
    second.later(PART)
    while not second.is_open("load"):
        second.answer(next(one.verb for one in second.open if one.verb in ("renew", "roster", "acquire", "poll")))

    assert len(second.call("load").args[1]) == LOADED_FIRST


def test_what_was_read_before_the_clock_was_found_set_moves_with_it_where_it_was_set_back_and_not_where_forward() -> (
    None
):
    for by in (-7_200_000, 7_200_000):
        bench = WorkerBench()
        bench.later(100)
        bench.worker.wake([LaneId(1)])
        bench.turn()
        read = bench.call("reload")
        bench.store.skew = by
        poll = bench.call("poll")
        bench.tell(read, [])
        bench.tell(poll, bench.carry_out(poll))

        kinds = [type(one) for one in bench.told() if isinstance(one, Reloaded | Jumped)]

        assert kinds == ([Reloaded, Jumped] if by < 0 else [Jumped, Reloaded])
