"""A sweep knows all lanes with work as they were a moment ago: it raises what it knows more of, and lowers nothing."""

from __future__ import annotations

from tests.units.core.kit import T0, Bench, endpoint, grown, row

from hooklane.core.engine import Dropped, EndpointChanged, EndpointsGone, Loaded, Reloaded, StartedAnew, Swept
from hooklane.core.engine.inputs import HealthSeen
from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import LaneState


def test_a_sweep_that_finds_what_is_known_does_nothing() -> None:
    later = row(lane=2, next_at=Instant(T0 + 9))
    bench = Bench(row(head=2, tail=3), later)
    bench.fetch()

    effects = bench.step(Swept(0, 1, [row(head=1, tail=2), row(head=2, tail=3), later]))

    assert (effects.missed, effects.reloads, effects.fetches, effects.sends) == (0, [], [], [])


def test_a_lane_that_no_poll_told_of_is_read_and_counted() -> None:
    bench = Bench()

    effects = bench.step(Swept(0, 1, [row(lane=5, head=2, tail=4), row(lane=-7, tail=1)]))

    assert (effects.missed, effects.reloads) == (2, [5, -7])
    assert [want[:2] for want in bench.step(Reloaded([row(lane=5, head=3, tail=4)], [5])).fetches] == [(5, 3)]


def test_a_tail_that_no_poll_told_of_is_raised_and_the_head_stays() -> None:
    bench = Bench(row(tail=1))
    (send,) = bench.fetch().sends
    bench.settle(send)

    effects = bench.step(Swept(0, 1, [row(head=1, tail=2)]))

    assert effects.missed == 1
    assert [want[:2] for want in effects.fetches] == [(1, 2)]


def test_a_sweep_lets_what_is_in_flight_end_and_sends_nothing_twice() -> None:
    bench = Bench(row(tail=1))
    (send,) = bench.fetch().sends

    effects = bench.step(Swept(0, 1, [row(head=1, tail=2, rev=1)]))

    assert (effects.missed, effects.sends, effects.reloads) == (1, [], [])
    assert [want[:2] for want in bench.settle(send).fetches] == [(1, 2)]


def test_a_recovery_that_no_poll_told_of_is_looked_up() -> None:
    bench = Bench(row(state=LaneState.BLOCKED, tail=1, attempts=3))

    effects = bench.step(Swept(0, 1, [row(tail=1, rev=1)]))

    assert (effects.missed, effects.reloads) == (1, [1])
    assert len(bench.step(Reloaded([row(tail=1, rev=1)], [1])).fetches) == 1


def test_a_sweep_of_another_epoch_says_nothing() -> None:
    assert Bench().step(Swept(0, 2, [row(lane=5)]), Swept(1, 1, [row(lane=6, pid=1)])).reloads == []


def test_an_answer_to_what_was_sent_before_we_started_anew_is_not_taken_for_that_of_its_successor() -> None:
    """A restored database gives the same lane, place and epoch to another event."""
    bench = Bench(row(tail=1))
    (lost,) = bench.fetch().sends
    bench.step(Dropped(frozenset({0})), StartedAnew())
    bench.step(Loaded(0, 1, [row(tail=1)]))
    (again,) = bench.fetch().sends

    assert bench.answer(lost) == []
    assert len(bench.answer(again)) == 1


def test_a_breaker_follows_the_store_after_a_start_anew_though_its_turns_are_fewer_there() -> None:
    bench = Bench()
    bench.step(HealthSeen([Health("ep", 9, BreakerState.OPEN, Instant(T0 + 60_000), 1)]))
    assert bench.engine.queues["ep"].breaker.state is BreakerState.OPEN

    bench.step(Dropped(frozenset({0})), StartedAnew())
    bench.step(HealthSeen([Health("ep", 2, BreakerState.OPEN, Instant(T0 + 10), 1)]), Loaded(0, 2, [row(tail=1)]))
    (claim,) = bench.later(20).health

    assert claim.turn == 3


def test_an_endpoint_that_the_store_has_forgotten_is_forgotten_with_its_lanes() -> None:
    """Each endpoint that was ever made stayed in memory."""
    bench = Bench(row(head=4, tail=3), row(lane=3, head=4, tail=3, endpoint_id="ep_3"))
    bench.step(EndpointChanged(endpoint("ep_2")), EndpointChanged(endpoint("ep_3")), grown(2, 1, endpoint_id="ep_2"))

    bench.step(EndpointsGone({"ep", "never_seen"}))

    assert (list(bench.engine.queues), len(bench.engine)) == (["ep_2", "ep_3"], 2)


def test_an_endpoint_of_which_something_is_under_way_is_kept_until_that_has_ended() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends

    bench.step(EndpointsGone({"ep"}))
    (write,) = bench.answer(send, 410)
    bench.step(EndpointsGone({"ep"}))
    assert list(bench.engine.queues) == ["ep"]
    bench.step(Dropped(frozenset({0})))
    bench.step(EndpointsGone({"ep"}))
    assert list(bench.engine.queues) == []

    assert bench.commit(write, fenced=True).sends == []


def test_a_sweep_asks_nothing_of_a_lane_that_is_being_looked_up() -> None:
    bench = Bench()
    bench.step(grown(1, 6))

    effects = bench.step(Swept(0, 1, [row(head=5, tail=6, rev=1)]))

    assert (effects.missed, effects.reloads) == (0, [])


def test_an_endpoint_is_kept_while_an_attempt_of_a_lane_that_was_lost_is_in_flight() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends
    bench.step(Dropped(frozenset({0})))

    bench.step(EndpointsGone({"ep"}))

    assert bench.answer(send) == []
    assert bench.engine.in_flight == 0
