"""A worker died and nobody saw of what: who is announced, who must wait for whom, and who is blamed in the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.units.core.kit import T0, TIMINGS, Bench, answer, endpoint, event, grown, row

from hooklane.core.engine import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    Fetch,
    Fetched,
    Input,
    Jumped,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
)
from hooklane.core.engine.suspects import DEATHS_MAX, GROUP_MAX, KILLS_MAX, QUIET_MS
from hooklane.model.attempt import Dead, Delivered, Send, Settlement, Start, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import EndpointState, OnDead
from hooklane.model.exchange import Failure, NoAnswer
from hooklane.model.lane import LaneRow

WIDE = {"in_flight_max": 1_000, "in_flight_max_all": 8_192}


def lanes(many: int, first: int = 1, **more: Any) -> list[LaneRow]:
    return [row(lane, **more) for lane in range(first, first + many)]


def starts(writes: list[Write]) -> list[tuple[int, int, int]]:
    """Lane, attempts and announcements of what is announced."""
    return sorted((one.lane_id, one.attempt, one.starts) for one in writes if isinstance(one, Start))


def lanes_of(fetches: list[Fetch]) -> list[int]:
    return [want.lane_id for want in fetches]


def announced(bench: Bench) -> list[Write]:
    """What is announced once it was read."""
    return bench.fetch().writes


def fly(bench: Bench, writes: list[Write]) -> list[Send]:
    return bench.commit(*writes).sends


# --- nobody is accused yet ---


def test_after_an_unclean_takeover_an_attempt_is_announced_and_does_not_count() -> None:
    bench = Bench(row(attempts=2), unclean=True)

    effects = bench.fetch()

    assert effects.sends == []
    assert effects.writes == [Start(1, 0, 1, 2, 0, starts=1)]
    (send,) = fly(bench, effects.writes)
    assert send.attempt == 3
    (following,) = bench.settle(send).sends
    assert (following.seq, following.attempt) == (2, 1)  # of the next one nobody can have died


def test_after_a_clean_takeover_nothing_is_announced() -> None:
    bench = Bench(row())

    effects = bench.fetch()

    assert (len(effects.sends), effects.writes) == (1, [])


def test_a_head_whose_time_had_not_come_was_in_nobodys_hands() -> None:
    bench = Bench(row(attempts=2, next_at=Instant(T0 + 500)), unclean=True)
    bench.later(500)

    effects = bench.fetch()

    assert (len(effects.sends), effects.writes) == (1, [])


def test_a_head_that_is_read_again_before_it_was_tried_is_still_announced() -> None:
    bench = Bench(row(1), unclean=True)

    bench.step(Reloaded([row(1, rev=1)], [1]))
    effects = bench.fetch()

    assert (effects.sends, starts(effects.writes)) == ([], [(1, 0, 1)])


def test_heads_that_nobody_accuses_go_at_once_however_many_they_are() -> None:
    bench = Bench(*lanes(1_000), unclean=True, **WIDE)

    sends = fly(bench, announced(bench))

    assert len(sends) == 1_000


def test_no_more_is_announced_than_the_process_may_have_in_flight() -> None:
    bench = Bench(unclean=True, in_flight_max_all=20)
    bench.step(*(EndpointChanged(endpoint(f"ep{n}")) for n in range(100)))
    bench.step(Loaded(0, 2, [row(n + 1, endpoint_id=f"ep{n}") for n in range(100)], unclean=True))

    writes = announced(bench)

    assert 0 < len(starts(writes)) <= 20


def test_no_more_is_announced_than_a_rate_limit_lets_fly_soon() -> None:
    bench = Bench(*lanes(50), unclean=True, rate_limit=100.0)

    writes = announced(bench)

    assert len(starts(writes)) == 5


# --- suspects ---


def test_a_head_that_was_announced_and_never_settled_is_a_suspect_also_after_a_clean_takeover() -> None:
    bench = Bench(*lanes(2, starts=1))

    assert starts(announced(bench)) == [(1, 0, 2), (2, 0, 2)]


def test_suspects_go_in_small_groups_and_nothing_counts() -> None:
    bench = Bench(*lanes(100, starts=1, attempts=4), **WIDE)
    first = announced(bench)

    sends = fly(bench, first)
    after = bench.settle(sends[0])
    more = announced(bench)

    assert starts(first) == [(lane, 4, 2) for lane in range(1, GROUP_MAX + 1)]
    assert len(sends) == GROUP_MAX
    assert {send.attempt for send in sends} == {5}
    assert [send.seq for send in after.sends] == [2]  # cleared: the rest of its lane is like any other
    assert starts(more) == [(GROUP_MAX + 1, 4, 2)]


def test_a_suspect_without_company_goes_alone_at_once() -> None:
    bench = Bench(row(starts=1, attempts=4))

    assert starts(announced(bench)) == [(1, 5, 3)]


def test_who_was_in_a_group_that_died_goes_alone_and_only_that_counts() -> None:
    bench = Bench(*lanes(3, starts=2, attempts=4), **WIDE)
    first = announced(bench)
    (send,) = fly(bench, first)

    bench.answer(send)
    while_it_settles = bench.effects
    bench.commit(*while_it_settles.writes)
    second = announced(bench)

    assert starts(first) == [(1, 5, 3)]
    assert send.attempt == 5
    assert while_it_settles.fetches == []
    assert starts(second) == [(2, 5, 3)]


def test_those_at_fewer_deaths_go_first_so_that_a_killer_comes_last() -> None:
    bench = Bench(row(1, starts=4), row(2, starts=2), row(3, starts=3), row(4, starts=1), row(5, starts=1), **WIDE)
    order = []
    writes = announced(bench)
    while writes:
        order.append([lane for lane, _, _ in starts(writes)])
        sends = fly(bench, writes)
        bench.settle(sends[0]) if len(sends) == 1 else [bench.settle(send) for send in sends]
        writes = announced(bench)

    assert order == [[4, 5], [2], [3], [1]]


def test_groups_go_before_one_alone() -> None:
    bench = Bench(row(1, starts=2), *lanes(2, first=2, starts=1))

    in_company = announced(bench)
    for send in fly(bench, in_company):
        bench.settle(send)

    assert starts(in_company) == [(2, 0, 2), (3, 0, 2)]
    assert starts(announced(bench)) == [(1, 1, 3)]


def test_suspects_hold_nobody_up_who_is_not_doubted() -> None:
    bench = Bench(*lanes(2, starts=2), row(3), **WIDE)

    effects = bench.fetch()
    bench.step(grown(4, 1))

    assert [send.lane_id for send in effects.sends] == [3]
    assert [send.lane_id for send in bench.effects.sends] == [4]


def test_a_suspect_whose_endpoint_is_paused_holds_no_other_up() -> None:
    bench = Bench(state=EndpointState.PAUSED)
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(0, 2, [row(1, starts=2), row(2, starts=2, endpoint_id="other")]))

    assert starts(announced(bench)) == [(2, 1, 3)]
    bench.settle(*fly(bench, bench.effects.writes))
    bench.step(EndpointChanged(endpoint()))
    assert starts(announced(bench)) == [(1, 1, 3)]


def test_an_announced_head_whose_endpoint_is_paused_gives_its_place_up_and_is_not_announced_again() -> None:
    bench = Bench()
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(0, 2, [row(1, starts=2), row(2, starts=2, endpoint_id="other")]))
    first = announced(bench)

    bench.step(EndpointChanged(endpoint(state=EndpointState.PAUSED)), Committed(first))
    second = announced(bench)
    bench.settle(*fly(bench, second))
    resumed = bench.step(EndpointChanged(endpoint()))

    assert (starts(first), starts(second)) == ([(1, 1, 3)], [(2, 1, 3)])
    assert resumed.writes == []
    assert [(send.lane_id, send.attempt) for send in resumed.sends] == [(1, 1)]


def test_a_suspect_that_is_lost_with_its_partition_holds_nobody_up() -> None:
    bench = Bench(row(1, starts=2))
    bench.step(Loaded(1, 1, [row(2, pid=1, starts=2)]))
    fly(bench, announced(bench))

    bench.step(Dropped(frozenset({0})))

    assert starts(announced(bench)) == [(2, 1, 3)]


def test_an_announcement_that_is_lost_with_its_partition_gives_its_place_back() -> None:
    bench = Bench(row(1), unclean=True, in_flight_max_all=1)
    announced(bench)

    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(1, 1, [row(2, pid=1)]))

    assert [send.lane_id for send in bench.fetch().sends] == [2]


def test_an_announcement_that_is_lost_with_its_partition_lets_the_next_of_its_endpoint_go() -> None:
    bench = Bench(row(1), unclean=True, in_flight_max=1)
    announced(bench)
    held = bench.step(Loaded(1, 1, [row(2, pid=1)]))

    effects = bench.step(Dropped(frozenset({0})))

    assert held.fetches == []
    assert lanes_of(effects.fetches) == [2]


def test_a_suspect_in_a_partition_that_will_be_given_back_holds_nobody_up() -> None:
    bench = Bench(row(1, starts=2))
    being_read = bench.effects
    bench.step(Loaded(1, 1, [row(2, pid=1, starts=2)]))

    bench.step(Leaving(frozenset({0})))
    bench.effects = being_read
    bench.fetch()

    assert starts(announced(bench)) == [(2, 1, 3)]


def test_an_announced_head_is_not_sent_by_a_worker_that_is_drained() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = announced(bench)

    assert bench.step(Draining(), Committed([start])).sends == []


def test_an_announced_head_is_not_sent_by_a_worker_whose_lease_is_over() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = announced(bench)

    assert bench.step(LeaseSet(T0), Committed([start])).sends == []


def test_an_attempt_that_was_never_made_is_not_announced_again() -> None:
    bench = Bench(row(starts=2))
    (send,) = fly(bench, announced(bench))

    writes = bench.answer(send, NoAnswer(Failure.ABORTED, TIMINGS))
    (again,) = bench.later(5_000).sends

    assert (writes, bench.effects.writes) == ([], [])
    assert (again.attempt, send.attempt) == (1, 1)


def test_our_own_announcement_on_record_is_no_death() -> None:
    bench = Bench(row(starts=2))
    writes = announced(bench)
    bench.step(EndpointChanged(endpoint(state=EndpointState.PAUSED)), Committed(writes))

    bench.step(Reloaded([row(starts=3, attempts=1)]))
    bench.step(EndpointChanged(endpoint()))
    resumed = bench.fetch()

    assert (resumed.writes, [send.attempt for send in resumed.sends]) == ([], [1])


def test_a_failure_that_was_seen_clears_a_suspect() -> None:
    bench = Bench(row(starts=4, attempts=2))
    (send,) = fly(bench, announced(bench))

    bench.settle(send, 503)
    (again,) = bench.later(60_000).sends

    assert again.attempt == send.attempt + 1
    assert bench.effects.writes == []


# --- going alone ---


def test_who_goes_alone_waits_for_those_in_flight_and_they_for_it() -> None:
    bench = Bench(*lanes(5), unclean=True, **WIDE)
    sends = fly(bench, announced(bench))
    bench.step(Loaded(1, 1, [row(9, pid=1, starts=2), row(10, pid=1)], unclean=True))
    waiting = announced(bench)

    quiet = [bench.settle(send) for send in sends][-1]
    alone = announced(bench)
    (flown,) = fly(bench, alone)
    bench.settle(flown)

    assert waiting == []
    assert quiet.writes == []
    assert starts(alone) == [(9, 1, 3)]
    assert starts(bench.effects.writes) == [(10, 0, 1)]


def test_who_goes_alone_waits_for_others_only_so_long() -> None:
    bench = Bench(row(1), unclean=True)
    fly(bench, announced(bench))
    bench.step(Loaded(1, 1, [row(2, pid=1, starts=2)]))

    assert bench.effects.wake_at == T0 + QUIET_MS
    bench.later(QUIET_MS)
    assert starts(announced(bench)) == [(2, 1, 3)]


def test_others_do_not_wait_for_one_that_cannot_go_alone_after_all() -> None:
    bench = Bench(row(1), unclean=True, **WIDE)
    (send,) = fly(bench, announced(bench))
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(1, 1, [row(2, pid=1, starts=2, endpoint_id="other")]))
    bench.step(Loaded(2, 1, [row(3, pid=2)], unclean=True))
    held = bench.fetch()

    bench.step(EndpointChanged(endpoint("other", state=EndpointState.PAUSED)))

    assert (held.writes, starts(bench.settle(send).writes)) == ([], [(3, 0, 1)])


def test_others_wait_for_who_goes_alone_only_so_long() -> None:
    bench = Bench(row(1, starts=2))
    fly(bench, announced(bench))
    bench.step(Loaded(1, 1, [row(2, pid=1)], unclean=True))
    held = bench.fetch()

    assert (held.writes, held.wake_at) == ([], T0 + QUIET_MS)
    assert starts(bench.later(QUIET_MS).writes) == [(2, 0, 1)]


# --- the end of it ---


@pytest.mark.parametrize(
    "doubt", [{"starts": 2 + DEATHS_MAX, "attempts": DEATHS_MAX}, {"starts": 3, "attempts": 5}], ids=str
)
def test_a_head_of_which_workers_die_ends_as_a_dead_letter(doubt: dict[str, int]) -> None:
    bench = Bench(row(**doubt), unclean=True, attempts_max=5)

    (write,) = bench.fetch().writes

    assert isinstance(write, Settlement)
    assert (write.outcome, write.result) == (Dead("worker_died"), None)
    assert write.send.attempt == doubt["attempts"]


@pytest.mark.parametrize("doubt", [{}, {"starts": 1}, {"starts": 2}], ids=str)
def test_deaths_in_company_cost_no_attempts(doubt: dict[str, int]) -> None:
    bench = Bench(row(1, attempts=4, **doubt), row(2, attempts=4, **doubt), unclean=True, attempts_max=5)

    sends = fly(bench, announced(bench))

    assert {send.attempt for send in sends} == {5}


def test_a_head_of_which_workers_die_is_skipped_where_the_endpoint_says_so() -> None:
    bench = Bench(row(starts=2 + DEATHS_MAX, attempts=DEATHS_MAX), unclean=True, on_dead=OnDead.SKIP)

    (write,) = bench.fetch().writes

    assert isinstance(write, Settlement)
    assert write.outcome == Dead("worker_died", skip=True)
    (following,) = bench.commit(write).sends
    assert (following.seq, following.attempt, following.prev_seq) == (2, 1, 0)


class Crowd:
    """Lanes in a store that remembers nothing but heads, and workers that die of some of them."""

    def __init__(self, killers: set[int], many: int, **rules: Any) -> None:
        self.killers = killers
        self.rules = rules
        self.rows = {one.id: one for one in lanes(many, tail=1)}
        self.dead: dict[int, str] = {}
        self.made: dict[int, list[int]] = {lane: [] for lane in self.rows}
        self.crashes = 0

    def live(self) -> bool:
        """One worker, from its takeover to its death; True when it has done everything."""
        bench = Bench(*self.rows.values(), unclean=self.crashes > 0, **WIDE, **self.rules)
        todo = [bench.effects]
        while todo:
            effects = todo.pop(0)
            for send in effects.sends:
                self.made[send.lane_id].append(send.attempt)
                if send.lane_id in self.killers:
                    self.crashes += 1
                    return False
            for write in effects.writes:
                self.store(write)
            inputs: list[Input] = [Settled(send, answer(200), 0.0) for send in effects.sends]
            inputs += [Fetched([(want.lane_id, 1, event(1)) for want in effects.fetches], lanes_of(effects.fetches))]
            inputs += [Committed(effects.writes)]
            if effects.sends or effects.writes or effects.fetches:
                todo.append(bench.step(*inputs))
        return True

    def store(self, write: Write) -> None:
        match write:
            case Start():
                one = self.rows[write.lane_id]
                self.rows[one.id] = replace(one, attempts=write.attempt, starts=write.starts)
            case Settlement(outcome=Delivered()):
                del self.rows[write.lane_id]
            case Settlement(outcome=Dead(reason=reason)):
                self.dead[write.lane_id] = reason
                del self.rows[write.lane_id]


def test_one_killer_among_thousands_dies_and_nobody_else_loses_an_attempt() -> None:
    crowd = Crowd({1_234}, 3_000)
    while not crowd.live():
        assert crowd.crashes <= KILLS_MAX

    assert crowd.dead == {1_234: "worker_died"}
    assert crowd.crashes <= KILLS_MAX
    assert sorted(crowd.made[1_234]) == crowd.made[1_234]  # the number of an attempt never goes down
    assert crowd.made[1_234][-1] == DEATHS_MAX
    assert {tuple(set(made)) for lane, made in crowd.made.items() if lane != 1_234} == {(1,)}


def test_a_lonely_killer_dies_sooner() -> None:
    crowd = Crowd({1}, 1)
    while not crowd.live():
        assert crowd.crashes < KILLS_MAX

    assert (crowd.dead, crowd.made[1]) == ({1: "worker_died"}, [1, 1, *range(1, DEATHS_MAX + 1)])


def test_several_killers_die_each_alone() -> None:
    killers = {7, 300, 301, 555}
    crowd = Crowd(killers, 600)
    while not crowd.live():
        assert crowd.crashes <= len(killers) * KILLS_MAX

    assert crowd.dead == dict.fromkeys(killers, "worker_died")
    assert max(max(made) for lane, made in crowd.made.items() if lane not in killers) == 1


def test_where_one_attempt_is_allowed_a_killer_gets_one_alone() -> None:
    crowd = Crowd({3}, 50, attempts_max=1)
    while not crowd.live():
        assert crowd.crashes <= 4

    assert crowd.dead == {3: "worker_died"}
    assert crowd.made[3] == [1] * 4


# --- what goes wrong in between ---


def test_a_head_that_is_due_just_now_is_doubted_after_an_unclean_takeover() -> None:
    bench = Bench(row(attempts=1, next_at=T0), unclean=True)

    assert starts(announced(bench)) == [(1, 1, 1)]


def test_doubt_outlives_a_look_that_was_older_than_what_was_asked() -> None:
    bench = Bench(row(1, head=2), unclean=True)
    wants = [want.lane_id for want in bench.effects.fetches]
    assert bench.step(Fetched([], wants)).reloads == [1]

    assert bench.step(Reloaded([row(1, head=1)], [1])).reloads == [1]
    bench.step(Reloaded([row(1, head=2)], [1]))

    assert starts(announced(bench)) == [(1, 0, 1)]


def test_an_announcement_that_only_the_store_knows_of_is_a_doubt() -> None:
    bench = Bench(row(1), row(2))

    bench.step(Reloaded([row(1, rev=1, starts=1), row(2, rev=1, starts=1)], [1, 2]))

    assert starts(announced(bench)) == [(1, 0, 2), (2, 0, 2)]


def test_doubt_of_a_head_ends_where_the_store_says_that_it_is_done() -> None:
    bench = Bench(row(1), unclean=True)

    bench.step(Reloaded([row(1, head=2, rev=1)], [1]))
    effects = bench.fetch()

    assert ([send.seq for send in effects.sends], effects.writes) == ([2], [])


def test_places_that_are_announced_are_counted_until_they_fly_and_once() -> None:
    bench = Bench(in_flight_max_all=2)
    bench.step(*(EndpointChanged(endpoint(f"ep{n}")) for n in range(4)))
    bench.step(Loaded(0, 2, [row(n + 1, endpoint_id=f"ep{n}") for n in range(4)], unclean=True))
    first, second = announced(bench)

    effects = bench.commit(first)

    assert (len(effects.sends), effects.writes) == (1, [])
    effects = bench.commit(second)
    assert (len(effects.sends), effects.writes) == (1, [])


def test_a_suspect_that_was_passed_over_while_it_waited_for_others_is_sent_once() -> None:
    bench = Bench(row(1, starts=2), row(2, starts=2), **WIDE)
    (first,) = fly(bench, announced(bench))
    bench.step(Reloaded([row(2, head=2, rev=1)], [2]))
    (other,) = bench.fetch().sends

    effects = bench.settle(first)

    assert (other.lane_id, [send.lane_id for send in effects.sends]) == (2, [1])


def test_one_of_a_group_that_has_to_wait_for_its_time_after_all_holds_nobody_up() -> None:
    bench = Bench(*lanes(GROUP_MAX + 2, starts=1), **WIDE)
    sends = fly(bench, announced(bench))
    first, second = GROUP_MAX + 1, GROUP_MAX + 2
    bench.step(Reloaded([row(first, rev=1, next_at=Instant(T0 + 500))], [first]))

    following = bench.settle(sends[0])

    assert lanes_of(following.fetches) == [second]
    assert lanes_of(bench.later(500).fetches) == [first]


def test_suspects_for_which_there_is_no_place_keep_their_order() -> None:
    bench = Bench(in_flight_max_all=1)
    (held,) = bench.step(grown(9, 1)).sends
    bench.step(Loaded(0, 2, [row(9, head=2, tail=1), row(1, starts=5), row(2, starts=3)]))

    bench.step(Settled(held, answer(200), 0.0))

    assert starts(announced(bench)) == [(2, 1, 4)]


def test_a_suspect_that_cannot_be_read_yet_holds_no_other_up_and_has_its_turn() -> None:
    bench = Bench(*lanes(4, tail=1), in_flight_max=1)
    reading = bench.effects
    assert len(reading.fetches) == 4
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(1, 1, [row(5, pid=1, starts=2)]))
    assert bench.effects.fetches == []
    bench.step(Loaded(2, 1, [row(6, pid=2, starts=2, endpoint_id="other")]))
    alone = announced(bench)
    bench.settle(*fly(bench, alone))

    bench.effects = reading
    effects = bench.fetch()
    read = lanes_of(effects.fetches)
    while effects.sends:
        effects = bench.settle(*effects.sends)
        read += lanes_of(effects.fetches)

    assert (starts(alone), read) == ([(6, 1, 3)], [5])


def test_who_is_held_back_for_one_that_goes_alone_holds_up_nobody_behind_it() -> None:
    bench = Bench(row(1, starts=2), **WIDE)
    fly(bench, announced(bench))
    being_read = bench.step(Loaded(1, 1, [row(2, pid=1)], unclean=True)).fetches
    being_read += bench.step(Loaded(2, 1, [row(3, pid=2)])).fetches
    bench.effects.fetches = being_read

    assert [send.lane_id for send in bench.fetch().sends] == [3]


@pytest.mark.parametrize("announcements", [0, 1, 2])
def test_a_head_that_has_had_all_its_attempts_is_not_blamed_for_a_death_in_company(announcements) -> None:
    """As where a person has lowered the bound since."""
    bench = Bench(row(attempts=5, starts=announcements), unclean=True, attempts_max=5)

    assert len(fly(bench, announced(bench))) == 1


def test_what_is_lost_in_the_step_in_which_it_was_announced_is_not_gone_on_with() -> None:
    bench = Bench(row(1), unclean=True)
    (start,) = announced(bench)

    effects = bench.step(Committed([start]), Dropped(frozenset({0})))

    assert (effects.sends, effects.fetches) == ([], [])


@pytest.mark.parametrize("status", [503, 410])
def test_a_head_whose_failure_was_seen_is_nobodys_suspect(status) -> None:
    bench = Bench()
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(0, 2, [row(1, starts=2), row(2, starts=2, endpoint_id="other")]))
    (first,) = fly(bench, announced(bench))
    bench.settle(first, status)
    fly(bench, announced(bench))

    bench.step(EndpointChanged(endpoint()))
    bench.later(60_000)

    assert [send.lane_id for send in [*bench.effects.sends, *bench.fetch().sends]] in ([1], [])
    assert bench.engine.in_flight == 2


def test_a_suspect_whose_outcome_was_stale_holds_nobody_up() -> None:
    bench = Bench(row(1, starts=2), row(2, starts=2))
    (send,) = fly(bench, announced(bench))

    bench.commit(*bench.answer(send), stale=True)

    assert starts(announced(bench)) == [(2, 1, 3)]


def test_one_of_a_group_that_gave_its_place_up_goes_with_the_group_and_not_beside_one_alone() -> None:
    bench = Bench(**WIDE)
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(0, 2, [row(1, starts=1, endpoint_id="other"), row(2, starts=1), row(3, starts=2)]))
    first, second = announced(bench)
    paused = EndpointChanged(endpoint("other", state=EndpointState.PAUSED))
    (flying,) = bench.step(paused, Committed([first, second])).sends

    together = bench.step(EndpointChanged(endpoint("other"))).sends

    assert (flying.lane_id, [send.lane_id for send in together]) == (2, [1])


def test_one_of_a_group_that_gave_its_place_up_waits_for_one_that_is_alone() -> None:
    bench = Bench(**WIDE)
    bench.step(EndpointChanged(endpoint("other")))
    bench.step(Loaded(0, 2, [row(1, starts=1, endpoint_id="other"), row(2, starts=1), row(3, starts=2)]))
    first, second = announced(bench)
    paused = EndpointChanged(endpoint("other", state=EndpointState.PAUSED))
    (flying,) = bench.step(paused, Committed([first, second])).sends
    bench.settle(flying)
    (alone,) = fly(bench, announced(bench))
    assert alone.lane_id == 3

    bench.later(QUIET_MS)
    waits = bench.step(EndpointChanged(endpoint("other"))).sends

    assert waits == []
    assert [send.lane_id for send in bench.settle(alone).sends if send.lane_id == 1] == [1]


def test_the_quiet_that_one_alone_asks_for_is_not_put_off_by_what_ends_meanwhile() -> None:
    bench = Bench(row(1), row(2), unclean=True, **WIDE)
    first, _ = fly(bench, announced(bench))
    bench.step(Loaded(1, 1, [row(3, pid=1, starts=2)]))

    bench.now = Instant(T0 + 500)
    bench.settle(first)

    assert bench.effects.wake_at == T0 + QUIET_MS


def test_after_a_jump_of_the_clock_one_alone_waits_for_those_in_flight_as_before() -> None:
    bench = Bench(row(1), unclean=True)
    fly(bench, announced(bench))
    bench.now = Instant(T0 + 3_600_000)
    bench.step(Jumped(3_600_000))

    bench.step(Loaded(1, 1, [row(2, pid=1, starts=2)]))

    assert (bench.effects.fetches, bench.effects.wake_at) == ([], bench.now + QUIET_MS)


def test_one_alone_for_which_nobody_waits_wakes_nobody() -> None:
    bench = Bench(row(1, starts=2))
    fly(bench, announced(bench))

    assert bench.effects.wake_at == FOREVER


def test_suspects_that_wait_for_others_to_end_wake_nobody() -> None:
    bench = Bench(*lanes(GROUP_MAX + 1, starts=1), **WIDE)
    fly(bench, announced(bench))

    assert bench.effects.wake_at == FOREVER


def test_one_alone_that_finds_no_place_after_its_quiet_is_not_woken_at_once() -> None:
    bench = Bench(row(1), unclean=True, in_flight_max_all=2)
    fly(bench, announced(bench))
    bench.step(EndpointChanged(endpoint("other")), Loaded(1, 1, [row(2, pid=1, starts=2)]))
    assert bench.effects.wake_at == T0 + QUIET_MS
    assert len(bench.step(grown(9, 1, endpoint_id="other")).sends) == 1

    bench.later(QUIET_MS)

    assert bench.effects.wake_at > bench.now
