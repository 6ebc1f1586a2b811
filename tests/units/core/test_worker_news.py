"""How a worker hears the news: polls and loads take turns, marks move, and a sweep finds what was missed."""

from __future__ import annotations

from dataclasses import replace

from tests.units.core.kit import T0, endpoint, event, row
from tests.units.core.test_worker_ownership import PART, lose_the_mark, told
from tests.units.core.worker_kit import POLL_MS, WorkerBench

from hooklane.core.engine import EndpointChanged, HealthSeen, Reloaded, Swept
from hooklane.core.worker import Missed
from hooklane.core.worker.news import SPANS_MAX, still_holds
from hooklane.core.worker.reading import BATCH_MAX, REST_MS
from hooklane.core.worker.sweeping import POLLS, Rounds, unnoticed
from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import Grown, LaneId
from hooklane.model.session import Session


def poll(bench: WorkerBench) -> None:
    bench.later(POLL_MS)
    bench.answer("poll")


def missing_one(bench: WorkerBench, pid: int = 5) -> None:
    """One partition is free, and will be taken at the next renewal."""
    bench.store.release("a1", [pid])
    del bench.worker.epochs[pid]


# --- polls and loads take turns ---


def test_a_load_waits_for_the_poll_that_is_under_way() -> None:
    bench = WorkerBench()
    missing_one(bench)
    bench.later(PART)
    bench.settle("renew", "roster", "acquire")
    assert bench.is_open("poll")
    assert not bench.is_open("load")

    bench.answer("poll")

    assert bench.is_open("load")


def test_no_poll_begins_while_a_load_is_under_way() -> None:
    bench = WorkerBench()
    missing_one(bench)
    bench.later(PART)
    bench.settle("poll", "renew", "roster", "acquire")
    assert bench.is_open("load")

    bench.later(2 * POLL_MS)
    assert not bench.is_open("poll")
    bench.answer("load")
    bench.later(POLL_MS)

    assert bench.is_open("poll")


def test_a_load_that_failed_lets_polls_go_on() -> None:
    bench = WorkerBench()
    missing_one(bench)
    bench.later(PART)
    bench.settle("poll", "renew", "roster", "acquire")
    bench.fail("load")

    bench.later(POLL_MS)

    assert bench.is_open("poll")


def test_what_a_partition_grew_by_between_its_load_and_a_poll_is_told() -> None:
    bench = WorkerBench()
    missing_one(bench)
    bench.later(PART)
    bench.settle("poll", "renew", "roster", "acquire")
    call = bench.call("load")
    load = bench.carry_out(call)
    published = bench.publish(900)
    bench.tell(call, load)
    bench.turn()
    bench.later(POLL_MS)

    news = bench.carry_out(bench.call("poll"))

    assert any(one.pid == 5 for one in published.grown)
    assert {one.lane_id for one in news.grown} == {one.lane_id for one in published.grown}


# --- the rhythm ---


def test_a_poll_follows_the_last_after_a_while_or_at_once_when_nudged() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    bench.world.now += 70
    bench.answer("poll")
    bench.later(POLL_MS - 1)
    assert not bench.is_open("poll")
    bench.later(1)
    bench.answer("poll")

    bench.worker.nudge()
    bench.turn()

    assert bench.is_open("poll")


def test_a_nudge_during_a_load_is_kept_until_the_load_is_over_since_that_one_may_have_read_before() -> None:
    bench = WorkerBench()
    missing_one(bench)
    bench.later(PART)
    bench.settle("poll", "renew", "roster", "acquire")
    assert bench.is_open("load")

    bench.worker.nudge()
    bench.turn()
    assert not bench.is_open("poll")
    bench.answer("load")

    assert bench.is_open("poll")


def test_a_nudge_during_a_poll_makes_another_since_that_one_may_have_read_before() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    bench.worker.nudge()
    bench.turn()
    bench.answer("poll")
    assert bench.is_open("poll")

    bench.answer("poll")

    assert not bench.is_open("poll")


def test_it_is_known_which_poll_was_heard() -> None:
    """Who has changed an endpoint waits for the poll that a nudge promises."""
    bench = WorkerBench()
    for _ in range(2):
        promised = bench.worker.nudge()
        bench.turn()
        before = bench.worker.news.heard

        bench.answer("poll")

        assert before < promised == bench.worker.news.heard


def test_a_poll_that_failed_is_made_again_after_a_while_from_the_same_mark() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    mark = bench.call("poll").args[2]
    bench.publish(3)
    bench.fail("poll")
    bench.later(POLL_MS)

    assert bench.call("poll").args[2] == mark


def test_before_anything_is_loaded_there_is_nothing_to_poll_for() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.later(10 * POLL_MS)

    assert not bench.is_open("poll")


# --- marks ---


def test_a_poll_alone_is_told_once() -> None:
    bench = WorkerBench()
    bench.publish(1)
    bench.later(POLL_MS)
    bench.tell(bench.call("poll"), bench.carry_out(bench.call("poll")))
    first = told(bench, Grown)
    bench.turn()
    bench.later(POLL_MS)
    bench.tell(bench.call("poll"), bench.carry_out(bench.call("poll")))

    assert (len(first), len(told(bench, Grown))) == (1, 0)


def test_a_later_load_keeps_the_older_mark() -> None:
    bench = WorkerBench()
    mark = bench.worker.news.mark
    missing_one(bench)
    bench.later(PART)
    bench.settle("renew", "roster", "acquire")
    bench.fail("poll")
    bench.publish(3)
    bench.answer("load")

    assert bench.worker.news.mark == mark


def test_news_that_were_asked_for_under_a_name_that_is_given_up_are_not_told() -> None:
    bench = WorkerBench()
    bench.publish(3)
    bench.later(PART)
    poll = bench.call("poll")
    bench.tell(bench.call("renew"), None)
    bench.turn()
    bench.tell(poll, bench.carry_out(poll))

    assert told(bench, Grown) == []
    assert bench.worker.name == "a2"


def test_what_people_changed_is_told() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    news = bench.carry_out(bench.call("poll"))
    turned = Health("ep", 1, BreakerState.OPEN, T0)
    bench.tell(bench.call("poll"), replace(news, endpoints=[endpoint("ep_2")], health=[turned], recovered=[77]))

    assert told(bench, EndpointChanged) == [EndpointChanged(endpoint("ep_2"))]
    assert told(bench, HealthSeen) == [HealthSeen([turned])]
    bench.turn()
    assert bench.call("reload").args == ([77],)


# --- what this process published ---


def test_what_this_process_published_is_not_read_again() -> None:
    bench = WorkerBench()
    published = bench.publish(3)
    bench.worker.fed(published.grown, published.span)
    assert len(told(bench, Grown)) == 3
    bench.later(POLL_MS)

    assert bench.carry_out(bench.call("poll")).grown == []


def test_what_another_process_published_in_between_is_read() -> None:
    bench = WorkerBench()
    bench.publish(1)
    published = bench.publish(3)
    bench.worker.fed(published.grown, published.span)
    bench.later(POLL_MS)

    assert len(bench.carry_out(bench.call("poll")).grown) == 4


def test_a_span_that_came_during_a_poll_is_passed_when_the_poll_has_told_what_stands_before_it() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    bench.publish(1)
    call = bench.call("poll")
    news = bench.carry_out(call)
    published = bench.publish(3)
    bench.worker.fed(published.grown, published.span)
    bench.tell(call, news)
    bench.turn()
    bench.later(POLL_MS)

    assert bench.carry_out(bench.call("poll")).grown == []


def test_the_answer_of_a_poll_does_not_undo_a_span() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    call = bench.call("poll")
    published = bench.publish(3)
    news = bench.carry_out(call)
    bench.worker.fed(published.grown, published.span)
    assert bench.worker.news.mark == call.args[2], "the poll is from this mark"
    bench.tell(call, news)

    assert bench.worker.news.mark == bench.store.mark()
    assert not bench.worker.news._spans


def test_where_not_all_partitions_are_ours_every_publish_is_read() -> None:
    bench = WorkerBench()
    missing_one(bench)
    published = bench.publish(900)
    bench.worker.fed(published.grown, published.span)
    bench.later(POLL_MS)

    assert bench.carry_out(bench.call("poll")).grown


def test_spans_are_forgotten_with_the_mark() -> None:
    bench = WorkerBench()
    bench.publish(1)
    published = bench.publish(3)
    bench.worker.fed(published.grown, published.span)
    assert bench.worker.news._spans

    lose_the_mark(bench)

    assert not bench.worker.news._spans
    assert bench.worker.news._spans.maxlen == SPANS_MAX


# --- reading what the engine wants ---


def test_reads_go_in_batches_one_at_a_time() -> None:
    bench = WorkerBench()
    bench.worker.wake(range(BATCH_MAX + 10))
    bench.turn()
    assert bench.call("reload").args == (list(range(BATCH_MAX)),)
    bench.worker.wake([1_000])
    bench.turn()

    bench.answer("reload", [])

    assert bench.call("reload").args == ([*range(BATCH_MAX, BATCH_MAX + 10), 1_000],)


def test_a_read_that_failed_is_made_again_after_a_rest() -> None:
    bench = WorkerBench()
    bench.worker.wake([1])
    bench.turn()
    bench.fail("reload")
    assert bench.effects.wake_at <= bench.boot + REST_MS
    bench.later(REST_MS - 1)
    assert not bench.is_open("reload")

    bench.later(1)

    assert bench.call("reload").args == ([1],)


def test_rows_whose_times_cannot_be_believed_are_read_again_after_a_rest() -> None:
    bench = WorkerBench()
    bench.worker.wake([1])
    bench.turn()
    bench.worker.ownership._kept_at = bench.boot + 1

    bench.answer("reload", [])

    assert told(bench, Reloaded) == []
    bench.later(REST_MS)
    assert bench.call("reload").args == ([1],)


def test_rows_are_told_with_what_was_ours_when_they_were_asked_for() -> None:
    bench = WorkerBench()
    bench.worker.wake([1])
    bench.turn()
    before = dict(bench.worker.epochs)
    bench.worker.epochs[5] += 1

    bench.tell(bench.call("reload"), [])

    assert told(bench, Reloaded) == [Reloaded([], [1], before)]


def test_a_turn_of_a_breaker_carries_the_name_under_which_it_is_asked_for() -> None:
    bench = WorkerBench()
    bench.worker.breaker_turns.add([Health("ep", 1, BreakerState.OPEN, T0)])
    bench.turn()
    [turn] = bench.call("note_health").args[0]
    assert turn.by == "a1"

    bench.worker.state.name = "another"
    bench.tell(bench.call("note_health"), [turn])

    assert told(bench, HealthSeen) == [HealthSeen([turn], "a1", ["ep"])]


def test_a_lane_whose_head_only_the_store_knows_is_read() -> None:
    bench = WorkerBench()
    bench.worker.fed([Grown(LaneId(7), 0, "ep", "k", 5, event(5))], None)

    bench.turn()

    assert bench.call("reload").args == ([7],)


def test_an_endpoint_that_is_found_ill_is_told_to_the_store() -> None:
    bench = WorkerBench(lanes=30)
    bench.settle("fetch")
    for send in bench.sends:
        bench.end(send, 503)

    bench.turn()

    [turn] = bench.call("note_health").args[0]
    assert (turn.endpoint_id, turn.state) == ("ep", BreakerState.OPEN)


# --- sweeps ---


def swept(bench: WorkerBench) -> list[Swept]:
    return told(bench, Swept)


def sweeping() -> WorkerBench:
    return WorkerBench(rounds=Rounds(rest_ms_min=0, part=1.0))


def test_a_look_is_believed_when_three_polls_have_ended_since() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints")
    bench.answer("owed")

    for _ in range(POLLS - 1):
        poll(bench)
        bench.settle("endpoints", "owed")
    bench.later(POLL_MS)
    assert swept(bench) == []
    bench.tell(bench.call("poll"), bench.carry_out(bench.call("poll")))

    assert [one.pid for one in swept(bench)] == [0]
    bench.turn()
    bench.settle("endpoints", "owed")
    bench.later(POLL_MS)
    bench.tell(bench.call("poll"), bench.carry_out(bench.call("poll")))
    assert 0 not in [one.pid for one in swept(bench)], "each look is believed once"


def test_endpoints_are_read_once_in_a_round_and_before_the_lanes() -> None:
    bench = sweeping()
    poll(bench)
    assert not bench.is_open("owed")
    bench.answer("endpoints")
    assert bench.call("owed").args == ("a1", {0: 1})
    bench.answer("owed")

    poll(bench)

    assert not bench.is_open("endpoints")
    assert bench.call("owed").args == ("a1", {1: 1})


def test_an_endpoint_that_no_poll_told_of_is_told_and_counted() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints", [endpoint("ep", in_flight_max=512), endpoint("ep_unheard")])
    bench.answer("owed")
    for _ in range(POLLS):
        poll(bench)
        bench.settle("endpoints", "owed")

    assert list(bench.engine.queues) == ["ep", "ep_unheard"]
    assert bench.notes == [Missed(1)]


def test_an_endpoint_that_is_not_there_any_more_is_forgotten_when_it_was_known_before_the_look() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints", [])
    bench.answer("owed")
    bench.worker.inputs.append(EndpointChanged(endpoint("ep_made_since")))
    for _ in range(POLLS):
        poll(bench)
        bench.settle("endpoints", "owed")

    assert list(bench.engine.queues) == ["ep_made_since"]
    assert bench.notes == []


def test_lanes_that_no_poll_told_of_are_counted() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints")
    bench.answer("owed", {0: [row(901, pid=0)]})
    for _ in range(POLLS):
        poll(bench)
        bench.settle("endpoints", "owed")

    assert bench.notes == [Missed(1)]


def test_a_lane_that_the_store_is_slow_to_tell_of_was_not_missed() -> None:
    """A person has recovered it, a poll told so, and the look into the store takes longer than three polls."""
    bench = sweeping()
    bench.worker.wake([901])
    poll(bench)
    bench.answer("endpoints")
    bench.answer("owed", {0: [row(901, pid=0)]})
    for _ in range(POLLS + 1):
        poll(bench)
        bench.settle("endpoints", "owed")
    assert bench.is_open("reload")
    assert bench.notes == []

    bench.answer("reload", [])
    poll(bench)
    bench.settle("endpoints", "owed")
    assert bench.notes == []


def test_a_lane_that_waits_to_be_asked_about_is_asked_about_as_one_of_which_the_answer_is_to_come() -> None:
    bench = WorkerBench()
    lanes = [LaneId(n) for n in range(1, BATCH_MAX + 2)]

    bench.worker.wake(lanes)
    bench.turn()

    assert len(bench.call("reload").args[0]) == BATCH_MAX
    assert bench.worker.reloads.asked == set(lanes)


def test_a_look_of_a_name_that_is_given_up_is_not_believed() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints", [endpoint("ep_of_another_store")])
    bench.answer("owed", {0: [row(901, pid=0)]})
    lose_the_mark(bench)
    bench.settle()
    for _ in range(POLLS + 1):
        poll(bench)
        bench.settle("endpoints", "owed")

    assert "ep_of_another_store" not in bench.engine.queues
    assert not any(isinstance(note, Missed) for note in bench.notes)


def test_only_one_look_is_under_way_and_one_that_failed_is_over() -> None:
    bench = sweeping()
    poll(bench)
    poll(bench)
    poll(bench)
    assert bench.is_open("endpoints")
    bench.fail("endpoints")

    poll(bench)

    assert bench.call("owed").args == ("a1", {1: 1})


def test_a_look_that_is_answered_for_a_partition_that_is_not_ours_says_nothing() -> None:
    bench = sweeping()
    poll(bench)
    bench.answer("endpoints")
    bench.answer("owed", {})

    assert bench.worker.sweeping._looks == []


def test_a_mark_holds_where_it_was_read_and_elsewhere_while_that_session_lives() -> None:
    mark = Session("db 1", "7", None, read_at=100)

    assert still_holds(mark, mark, mark_lives=False)
    assert still_holds(mark, Session("db 1", "8", None, 0), mark_lives=True)
    assert not still_holds(mark, Session("db 1", "8", None, 0), mark_lives=False)
    assert not still_holds(mark, Session("db 2", "7", 1, 0), mark_lives=True), "another timeline is another history"


def test_behind_a_pooler_a_mark_holds_on_a_session_that_is_older_than_it() -> None:
    mark = Session("db 1", "7", 50, read_at=100)

    held = {began: still_holds(mark, Session("db 1", "8", began, 0), mark_lives=False) for began in (99, 100, 101)}

    assert held == {99: True, 100: False, 101: False}


def test_a_rest_follows_each_look_and_a_longer_one_after_a_look_that_took_long() -> None:
    rounds = Rounds(500, 0.01)
    assert rounds.next(T0, {3: 1}) == 3

    rounds.looked(T0, took_ms=1)
    assert rounds.next(Instant(T0 + 499), {3: 1}) is None
    assert rounds.next(Instant(T0 + 500), {3: 1}) == 3
    rounds.looked(T0, took_ms=100)
    assert rounds.next(Instant(T0 + 9_899), {3: 1}) is None
    assert rounds.next(Instant(T0 + 9_900), {3: 1}) == 3


def test_a_worker_that_has_looked_rests_before_it_looks_again() -> None:
    bench = WorkerBench(rounds=Rounds(10 * POLL_MS))
    poll(bench)
    bench.settle("endpoints", "owed")

    for _ in range(8):
        poll(bench)
        assert not bench.is_open("owed")
    poll(bench)
    poll(bench)

    assert bench.is_open("owed")


def test_an_endpoint_that_was_heard_of_since_a_look_is_left_as_it_is() -> None:
    old, read, heard = (endpoint("ep", in_flight_max=n) for n in (1, 2, 3))

    assert unnoticed([read], {"ep": old}, {"ep": old}) == [read]
    assert unnoticed([read], {"ep": old}, {"ep": heard}) == []
    assert unnoticed([read], {}, {"ep": heard}) == []
