"""News comes late, twice and in the wrong order, and the engine believes the newest."""

from __future__ import annotations

import pytest
from tests.units.core.kit import T0, TIMINGS, Bench, answer, endpoint, event, grown, row

from hooklane.core.engine import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    Fetch,
    Fetched,
    Leaving,
    Loaded,
    Reloaded,
)
from hooklane.model.attempt import Cancel, Dead, Gone, Settlement, Start
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState, OnDead
from hooklane.model.event import Event
from hooklane.model.exchange import Failure, NoAnswer
from hooklane.model.lane import LaneState
from hooklane.model.lost import LOST_TYPE
from hooklane.model.redelivery import REDELIVERIES


def test_a_reload_that_was_read_before_our_last_commit_is_ignored() -> None:
    bench = Bench(row(tail=1))
    (send,) = bench.fetch().sends
    bench.settle(send)

    effects = bench.step(Reloaded([row(1, head=1, tail=1)], [1]))

    assert (effects.sends, effects.fetches, effects.reloads) == ([], [], [])


def test_a_reload_that_was_read_before_our_last_failure_does_not_shorten_its_wait() -> None:
    bench = Bench(row(tail=1))
    (send,) = bench.fetch().sends
    bench.settle(send, 500)

    assert bench.step(Reloaded([row(1, tail=1)], [1])).fetches == []
    (again,) = bench.later(1_000).sends
    assert again.attempt == 2


def test_a_lane_that_waits_for_its_own_reload_is_not_content_with_an_older_one() -> None:
    bench = Bench(row(head=2, tail=3))
    (send,) = bench.fetch().sends
    bench.commit(*bench.answer(send), stale=True)

    effects = bench.step(Reloaded([row(1, head=1, tail=3)], [1]))

    assert (effects.fetches, effects.reloads) == ([], [1])


def test_a_reload_tells_how_far_a_lane_goes_by_now() -> None:
    waiting = {"state": LaneState.RETRYING, "attempts": 1, "next_at": Instant(T0 + 1_000)}
    bench = Bench(row(1, tail=1, **waiting))

    bench.step(Reloaded([row(1, tail=3, rev=1, **waiting)], [1]))

    assert bench.later(1_000).fetches == [Fetch(1, 1, 3)]


def test_a_reload_from_before_a_takeover_is_void() -> None:
    bench = Bench(row(1, tail=1))
    old = dict(bench.engine.epochs)
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 2, []))

    effects = bench.step(Reloaded([row(1, tail=1)], [1], old))

    assert (effects.sends, effects.fetches) == ([], [])
    assert len(bench.engine) == 0


def test_a_replay_that_comes_between_a_death_and_the_news_of_it_is_not_forgotten() -> None:
    """Found by the simulator, rough seed 29: the lane stayed blocked for ever."""
    bench = Bench(row(tail=2), attempts_max=1)
    (send,) = bench.fetch().sends
    (death,) = bench.answer(send, 500)
    replayed = row(1, head=1, tail=2, rev=1)

    bench.step(Reloaded([replayed], [1]))
    effects = bench.commit(death)

    assert isinstance(death, Settlement)
    assert death.outcome == Dead("500")
    assert effects.reloads == [1]
    bench.step(Reloaded([replayed], [1]))
    (again,) = bench.fetch().sends
    assert (again.seq, again.attempt, again.rev) == (1, 1, 1)


def test_a_replay_that_comes_while_an_attempt_is_announced_makes_the_engine_look_again() -> None:
    bench = Bench(row(1, tail=1), unclean=True)
    (start,) = bench.fetch().writes

    bench.step(Reloaded([row(1, tail=1, rev=1)], [1]))
    effects = bench.commit(start)

    assert isinstance(start, Start)
    assert (effects.sends, effects.reloads) == ([], [1])


def test_an_announcement_that_was_stale_starts_no_attempt_and_makes_the_engine_look_again() -> None:
    bench = Bench(row(1, tail=1), unclean=True)
    (start,) = bench.fetch().writes

    effects = bench.commit(start, stale=True)

    assert isinstance(start, Start)
    assert (effects.sends, effects.reloads) == ([], [1])


def test_a_replay_that_comes_while_an_attempt_finds_no_room_makes_the_engine_look_again() -> None:
    bench = Bench(row(1, tail=1))
    (send,) = bench.fetch().sends
    bench.step(Reloaded([row(1, tail=1, rev=1)], [1]))

    writes = bench.answer(send, NoAnswer(Failure.ABORTED, TIMINGS))

    assert (writes, bench.effects.reloads) == ([], [1])


def test_a_look_that_is_older_than_a_death_does_not_revive_the_head() -> None:
    bench = Bench(row(1, tail=2), attempts_max=1)
    (send,) = bench.fetch().sends
    bench.settle(send, 500)

    effects = bench.step(Reloaded([row(1, tail=2)], [1]))

    assert (effects.sends, effects.fetches) == ([], [])


def test_an_event_that_the_database_lost_is_passed_over_on_record_and_not_sent() -> None:
    lost = Event("lost:0:1", LOST_TYPE, "k1", b"{}", T0)
    bench = Bench(row(1, tail=2))

    effects = bench.step(Fetched([(1, 1, lost), (1, 2, event(2, "k1"))], [1]))
    (following,) = bench.commit(*effects.writes).sends

    (write,) = effects.writes
    assert isinstance(write, Settlement)
    assert (effects.sends, write.outcome) == ([], Dead("lost", skip=True))
    assert following.seq == 2


def test_a_late_report_about_an_old_epoch_takes_nothing_away() -> None:
    """Found by the simulator, rough seed 19: it dropped the partition that had become ours again."""
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    writes, old = bench.answer(send), dict(bench.engine.epochs)
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 3, [row(1)]))
    (again,) = bench.fetch().sends

    bench.step(Committed(writes, frozenset({0}), frozenset(), old))
    (following,) = bench.settle(again).sends

    assert bench.engine.epochs == {0: 3}
    assert (following.seq, following.epoch) == (2, 3)


def test_an_old_announcement_does_not_start_a_new_attempt() -> None:
    bench = Bench(row(1), unclean=True)
    (old,) = bench.fetch().writes
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 3, [row(1, rev=1)], unclean=True))
    (new,) = bench.fetch().writes
    assert isinstance(old, Start)
    assert isinstance(new, Start)

    assert bench.commit(old).sends == []
    assert len(bench.commit(new).sends) == 1


def test_an_outcome_that_is_told_twice_moves_a_lane_once_that_is_being_cancelled() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING)))
    writes = bench.answer(send)

    first, second = bench.commit(*writes), bench.commit(*writes)

    assert first.writes == [Cancel(1, 0, 2, 3, 0)]
    assert second.writes == []


def test_an_announcement_that_is_told_twice_starts_one_attempt() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = bench.fetch().writes

    assert len(bench.commit(start).sends) == 1
    assert bench.commit(start).sends == []


def test_what_was_announced_is_not_sent_when_its_endpoint_was_deleted_meanwhile() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = bench.fetch().writes
    bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING)))

    effects = bench.commit(start)

    assert effects.sends == []
    assert [type(write) for write in effects.writes] == [Cancel]


def test_an_outcome_that_is_told_after_a_loss_moves_nothing_though_the_epoch_is_the_same_again() -> None:
    """As after a database lost its last moments: the same epoch is given out once more, and the head is tried anew."""
    bench = Bench(row(1, tail=2))
    (send,) = bench.fetch().sends
    (written,) = bench.answer(send)
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 1, [row(1, tail=2)]))
    (again,) = bench.fetch().sends

    assert bench.commit(written).sends == []

    (following,) = bench.settle(again).sends
    assert (again.seq, following.seq) == (1, 2)


def test_an_event_that_is_reported_twice_is_sent_once() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends

    bench.step(grown(1, 1, fed=False))
    bench.settle(send)

    assert bench.step(grown(1, 1, fed=False), grown(1, 1)).sends == []


def test_what_others_publish_is_read_when_it_is_due() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends
    bench.step(grown(1, 2, fed=False))

    effects = bench.settle(send)
    (following,) = bench.fetch().sends

    assert effects.sends == []
    assert following.seq == 2


def test_a_loose_delivery_that_is_not_owed_any_more_is_forgotten() -> None:
    bench = Bench()
    bench.step(grown(-7, 1, fed=False))

    bench.step(Reloaded([], [-7]))

    assert len(bench.engine) == 0


def test_a_paused_endpoint_holds_and_resuming_it_sends() -> None:
    bench = Bench(row(), state=EndpointState.PAUSED)
    assert bench.effects.fetches == []
    assert bench.later(10**7).sends == []

    bench.step(EndpointChanged(endpoint()))

    assert len(bench.fetch().sends) == 1


def test_new_rules_hold_from_the_next_attempt() -> None:
    bench = Bench(row(tail=2))
    (first,) = bench.fetch().sends

    bench.step(EndpointChanged(endpoint(url="https://y.example")))
    (second,) = bench.settle(first).sends

    assert (first.endpoint.url, second.endpoint.url) == ("https://x.example", "https://y.example")


def test_lanes_of_an_endpoint_that_is_not_known_yet_wait_for_the_news_of_it() -> None:
    bench = Bench(row(1, endpoint_id="ep_new"))
    assert bench.effects.fetches == []

    bench.step(EndpointChanged(endpoint("ep_new")))

    assert len(bench.fetch().sends) == 1


def test_410_holds_everything_of_the_endpoint_at_once() -> None:
    bench = Bench(row(1), row(2), in_flight_max=1)
    (send,) = bench.fetch().sends

    (write,) = bench.answer(send, 410)

    assert isinstance(write, Settlement)
    assert write.outcome == Gone("410")
    assert bench.commit(write).sends == []
    assert bench.later(10**7).sends == []


def test_an_endpoint_that_was_resumed_before_its_410_is_reported_durable_stays_resumed() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    writes = bench.answer(send, 410)

    bench.step(EndpointChanged(endpoint()))
    (again,) = bench.commit(*writes).sends

    assert (again.seq, again.attempt) == (1, 2)


def test_a_410_that_did_not_become_durable_holds_nothing() -> None:
    bench = Bench(row(1), row(2), in_flight_max=1)
    (send,) = bench.fetch().sends

    effects = bench.commit(*bench.answer(send, 410), stale=True)

    assert [other.lane_id for other in effects.sends] == [2]


def test_410_of_an_endpoint_that_was_deleted_meanwhile_does_not_keep_what_is_owed_to_it() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING)))

    effects = bench.settle(send, 410)

    assert effects.writes == [Cancel(1, 0, 1, 3, 0)]


def test_410_of_an_endpoint_that_is_being_drained_is_a_failure_like_any_other() -> None:
    bench = Bench(row(1), state=EndpointState.DRAINING)
    (send,) = bench.fetch().sends

    effects = bench.settle(send, 410)

    assert effects.wake_at == T0 + 1_000
    (again,) = bench.later(1_000).sends
    assert again.attempt == 2


def test_nothing_new_is_started_in_a_partition_that_will_be_given_back() -> None:
    bench = Bench(row(1), row(2))
    first, second = bench.fetch().sends
    assert bench.engine.busy(frozenset({0, 1})) == {0}

    bench.step(Leaving(frozenset({0})))
    bench.settle(first)
    effects = bench.settle(second)

    assert effects.sends == []
    assert not bench.engine.busy(frozenset({0}))


def test_what_waits_in_a_partition_that_will_be_given_back_is_cancelled_with_its_endpoint() -> None:
    bench = Bench(row(1))
    being_read = bench.effects
    bench.step(Leaving(frozenset({0})))
    bench.effects = being_read
    assert bench.fetch().sends == []

    effects = bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING)))

    assert effects.writes == [Cancel(1, 0, 1, 3, 0)]


def test_a_partition_that_is_kept_after_all_goes_on() -> None:
    """Found by the simulator, seed 112: what was busy for too long was parked for ever."""
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    bench.step(Leaving(frozenset({0})))
    bench.settle(send)

    (following,) = bench.step(Leaving(frozenset())).sends

    assert following.seq == 2


def test_an_attempt_in_flight_is_not_parked_for_a_stale_place_in_the_line() -> None:
    bench = Bench(row(1), rate_limit=1.0)
    (first,) = bench.fetch().sends
    bench.settle(first, 500)
    bench.step(EndpointChanged(endpoint(state=EndpointState.PAUSED, rate_limit=1.0)))
    bench.later(1_010)
    bench.step(Reloaded([row(1, attempts=1, state=LaneState.RETRYING, rev=1)], [1]))  # a second place in the line
    bench.step(grown(1, 1))
    (again,) = bench.step(EndpointChanged(endpoint(rate_limit=1.0))).sends

    bench.step(Leaving(frozenset({0})))
    bench.later(1_010)

    assert bench.engine.busy(frozenset({0})) == {0}
    assert len(bench.answer(again)) == 1


def test_a_draining_engine_sends_nothing_more_and_finishes_what_it_began() -> None:
    bench = Bench(row(1), row(2), in_flight_max=1)
    (send,) = bench.fetch().sends

    bench.step(Draining())
    writes = bench.answer(send)

    assert len(writes) == 1
    assert bench.commit(*writes).sends == []
    assert bench.engine.in_flight == 0


def test_the_engine_asks_to_be_woken_when_the_next_head_is_due() -> None:
    bench = Bench(row(1, next_at=Instant(T0 + 700)), row(2, next_at=Instant(T0 + 300)))

    assert bench.effects.wake_at == T0 + 300
    assert [want.lane_id for want in bench.later(300).fetches] == [2]
    assert bench.effects.wake_at == T0 + 700


def test_news_that_come_late_do_not_shorten_a_lane() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends
    bench.step(grown(1, 2))
    bench.step(grown(1, 1, fed=False))

    (following,) = bench.settle(send).sends

    assert following.seq == 2


def test_events_that_nobody_waits_for_are_not_kept_in_memory() -> None:
    bench = Bench(row(1, head=2, tail=2))

    (send,) = bench.step(Fetched([(1, seq, event(seq, "k1")) for seq in (1, 2)], [1])).sends
    bench.step(Fetched([(1, 2, event(2, "k1"))], [1]))
    bench.settle(send)

    assert send.seq == 2
    assert bench.engine.held_bytes == 0


def test_a_redelivery_that_fails_stops_its_line_whatever_the_policy() -> None:
    bench = Bench(row(REDELIVERIES - 1, tail=1), on_dead=OnDead.SKIP, attempts_max=1)
    (send,) = bench.fetch().sends

    (write,) = bench.answer(send, 422)

    assert isinstance(write, Settlement)
    assert write.outcome == Dead("422")


def test_an_event_that_comes_when_it_is_done_is_not_kept() -> None:
    bench = Bench(row(1, head=2, tail=2))

    bench.step(grown(1, 1))

    assert bench.engine.held_bytes == 0


def test_a_lane_that_is_stopped_keeps_no_events_in_memory() -> None:
    bench = Bench(row(1, tail=3), attempts_max=1)
    (send,) = bench.fetch().sends
    assert bench.engine.held_bytes > 0

    bench.settle(send, 422)

    assert bench.engine.held_bytes == 0


def test_a_recovery_is_not_forgotten_for_an_older_look_at_the_lane() -> None:
    bench = Bench(row(1, tail=2))
    (send,) = bench.fetch().sends
    bench.step(Reloaded([row(1, tail=2, rev=1)], [1]))
    bench.step(Reloaded([row(1, tail=2, rev=0)], [1]))

    assert bench.settle(send).reloads == [1]


def test_a_lane_that_was_idle_in_a_lost_partition_is_nobodys_to_forget() -> None:
    bench = Bench(row(1, tail=1), lanes_max=0)
    (send,) = bench.fetch().sends
    bench.settle(send)
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 2, [row(2, tail=1)]))
    (send,) = bench.fetch().sends
    bench.settle(send)

    bench.later(60_000)

    assert len(bench.engine) == 0


def test_a_partition_that_was_leaving_when_it_was_lost_is_worked_on_when_it_is_ours_again() -> None:
    bench = Bench(row(1))
    bench.step(Leaving(frozenset({0})))
    bench.step(Dropped(frozenset({0})))

    bench.step(Loaded(0, 2, [row(1)]))

    (send,) = bench.fetch().sends
    assert (send.seq, send.epoch) == (1, 2)


def test_the_alarm_of_a_head_that_was_replayed_before_it_rang_starts_no_second_attempt() -> None:
    waiting = {"state": LaneState.RETRYING, "attempts": 1, "next_at": Instant(T0 + 1_000)}
    bench = Bench(row(1, tail=1, **waiting))
    bench.step(Reloaded([row(1, tail=1, rev=1)], [1]))
    (send,) = bench.fetch().sends

    effects = bench.later(1_000)

    assert (effects.sends, effects.fetches, bench.engine.in_flight) == ([], [], 1)
    assert len(bench.answer(send)) == 1


def test_an_old_alarm_of_a_head_that_waits_for_longer_by_now_leaves_one_alarm() -> None:
    waiting = {"state": LaneState.RETRYING, "attempts": 1, "next_at": Instant(T0 + 1_000)}
    bench = Bench(row(1, tail=1, **waiting))
    bench.later(500)
    bench.step(Reloaded([row(1, tail=1, rev=1)], [1]))
    (send,) = bench.fetch().sends
    bench.settle(send, 500)

    bench.later(500)

    assert len(bench.engine._heads.alarms._heap) == 1
    assert bench.effects.wake_at == T0 + 1_500


def test_the_alarms_of_others_stay_in_order_when_a_partition_is_lost() -> None:
    bench = Bench(row(1, next_at=Instant(T0 + 100)))
    bench.step(Loaded(1, 1, [row(n, pid=1, next_at=Instant(T0 + at)) for n, at in ((2, 500), (3, 200))]))

    bench.step(Dropped(frozenset({0})))

    assert bench.effects.wake_at == T0 + 200
    assert [want.lane_id for want in bench.later(200).fetches] == [3]


def test_the_queue_of_an_endpoint_keeps_its_alarm_when_a_partition_is_lost() -> None:
    bench = Bench(rate_limit=1.0)
    bench.step(Loaded(1, 1, []))
    assert len(bench.step(grown(1, 1, pid=1), grown(2, 1, pid=1)).sends) == 1

    bench.step(Dropped(frozenset({0})))

    assert len(bench.later(1_001).sends) == 1


def test_what_is_in_flight_elsewhere_is_not_touched_when_partitions_leave() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends

    effects = bench.step(Leaving(frozenset({1})))

    assert (effects.sends, len(bench.answer(send))) == ([], 1)


def test_what_stays_goes_on_in_the_step_in_which_what_leaves_is_parked() -> None:
    bench = Bench(row(1))
    being_read = [*bench.effects.fetches, *bench.step(Loaded(1, 1, [row(2, pid=1)])).fetches]
    bench.step(Leaving(frozenset({0})))
    bench.effects.fetches = being_read

    assert [send.lane_id for send in bench.fetch().sends] == [2]


def test_what_follows_a_lost_event_in_the_line_goes_in_the_same_step() -> None:
    lost = Event("lost:0:1", LOST_TYPE, "k1", b"{}", T0)
    bench = Bench(row(1, tail=1), row(2, tail=1))

    effects = bench.step(Fetched([(1, 1, lost), (2, 1, event(1, "k2"))], [1, 2]))

    assert (len(effects.writes), [send.lane_id for send in effects.sends]) == (1, [2])


def test_a_lane_that_is_being_read_waits_for_that_though_its_endpoint_is_known_at_last() -> None:
    bench = Bench()
    assert bench.step(grown(1, 6, endpoint_id="ep_new")).reloads == [1]

    effects = bench.step(EndpointChanged(endpoint("ep_new")))

    assert (effects.fetches, effects.sends) == ([], [])


def test_a_lane_that_nobody_told_of_is_taken_from_the_store_and_not_doubted() -> None:
    bench = Bench()

    bench.step(Reloaded([row(1, head=2)], [1]))
    effects = bench.fetch()

    assert ([send.seq for send in effects.sends], effects.writes) == ([2], [])


def test_a_look_that_finds_nothing_new_of_a_head_in_flight_is_the_last() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends

    bench.step(Reloaded([row(1)], [1]))

    assert bench.settle(send).reloads == []


def test_a_lane_is_read_again_once_for_a_recovery() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends
    bench.step(Reloaded([row(1, rev=1)], [1]))
    assert bench.settle(send).reloads == [1]

    bench.step(Reloaded([row(1, head=2, rev=1)], [1]))
    (following,) = bench.fetch().sends

    assert bench.settle(following).reloads == []


def test_a_report_from_before_a_loss_counts_for_what_was_kept() -> None:
    bench = Bench(row(1))
    bench.step(Loaded(1, 1, []))
    bench.engine.step(bench.now, [])
    (send,) = bench.step(grown(7, 1, pid=1)).sends
    writes, old = bench.answer(send), dict(bench.engine.epochs)
    bench.step(grown(7, 2, pid=1), Dropped(frozenset({0})))

    (following,) = bench.step(Committed(writes, frozenset(), frozenset(), old)).sends

    assert (following.lane_id, following.seq) == (7, 2)


def test_the_report_of_an_announcement_from_before_a_loss_starts_no_attempt() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = bench.fetch().writes
    old = dict(bench.engine.epochs)
    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(0, 3, [row(1)], unclean=True))
    assert bench.fetch().writes == [start]

    assert bench.step(Committed([start], epochs=old)).sends == []
    assert len(bench.commit(start).sends) == 1


def test_a_loose_delivery_has_no_place_from_which_a_receiver_could_miss_anything() -> None:
    bench = Bench(row(-7, tail=1, head=1))
    (send,) = bench.fetch().sends

    (write,) = bench.answer(send, answer(409, expected_seq="0"))

    assert isinstance(write, Settlement)
    assert not (isinstance(write.outcome, Dead) and write.outcome.gap)


IDLE, ACTIVE, RETRYING, BLOCKED = LaneState.IDLE, LaneState.ACTIVE, LaneState.RETRYING, LaneState.BLOCKED


@pytest.mark.parametrize(
    ("results", "on_dead", "states"),
    [
        ([200, 200], OnDead.BLOCK, [ACTIVE, IDLE]),
        ([500, 200, 500, 200], OnDead.BLOCK, [RETRYING, ACTIVE, RETRYING, IDLE]),
        ([500, 500], OnDead.BLOCK, [RETRYING, BLOCKED]),
        ([500, 500, 500, 500], OnDead.SKIP, [RETRYING, ACTIVE, RETRYING, IDLE]),
        ([410], OnDead.BLOCK, [RETRYING]),
    ],
    ids=str,
)
def test_the_lane_of_an_owner_stands_where_the_lane_machine_says(results, on_dead, states) -> None:
    bench = Bench(row(1, tail=2), on_dead=on_dead, attempts_max=2)
    sends = bench.fetch().sends
    seen = []

    for result in results:
        (send,) = sends
        sends = bench.settle(send, result).sends
        seen.append(bench.engine._heads.lanes[1].state)
        sends = sends or bench.later(60_000).sends

    assert seen == states


def test_what_comes_after_a_cancelling_has_neither_attempts_nor_a_wait_behind_it() -> None:
    bench = Bench(row(1, tail=1, attempts=2, starts=1, next_at=Instant(T0 + 9_000)))
    (cancel,) = bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING))).writes
    bench.commit(cancel)
    bench.step(EndpointChanged(endpoint()))

    (send,) = bench.step(grown(1, 2)).sends

    assert (send.seq, send.attempt, bench.effects.writes) == (2, 1, [])
