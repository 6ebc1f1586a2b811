"""When is a worker woken though nothing happens? For the earliest of all that waits for its time."""

from __future__ import annotations

from tests.units.core.kit import T0
from tests.units.core.worker_kit import GRACE_MS, LEASE_MS, POLL_MS, WorkerBench

from hooklane.core.worker.ownership import LET_GO_POLL_MS, RENEWALS
from hooklane.core.worker.reading import BATCH_MAX, REST_MS
from hooklane.core.worker.writing import AGAIN_MS, LINGER_MS
from hooklane.model.clock import FOREVER
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import LaneId

PART_MS = LEASE_MS // RENEWALS


def hanging(*, lanes: int = 0) -> WorkerBench:
    """A worker whose poll and whose renewal are under way, and stay so: neither wakes it."""
    bench = WorkerBench(lanes=lanes)
    bench.settle("fetch")
    bench.later(PART_MS)
    assert bench.is_open("poll")
    assert bench.is_open("renew")
    return bench


def test_a_worker_with_nothing_to_do_wakes_for_its_next_poll() -> None:
    bench = WorkerBench()
    bench.later(POLL_MS)
    bench.answer("poll")

    assert bench.effects.wake_at == bench.boot + POLL_MS


def test_a_worker_whose_poll_hangs_wakes_to_renew_its_lease() -> None:
    bench = WorkerBench()
    leased_at = bench.boot

    bench.later(POLL_MS)

    assert bench.is_open("poll")
    assert bench.effects.wake_at == leased_at + PART_MS


def test_a_poll_that_has_to_wait_for_a_load_wakes_nobody_again_and_again() -> None:
    bench = WorkerBench(start=False)
    bench.turn()
    bench.settle("join", "roster", "acquire")
    assert bench.is_open("load")

    bench.later(3 * POLL_MS)

    assert bench.effects.wake_at == bench.boot + POLL_MS


def test_it_wakes_to_see_whether_what_it_gives_back_is_quiet() -> None:
    bench = hanging()
    WorkerBench(bench)

    bench.settle("renew", "roster")

    assert bench.effects.wake_at == bench.boot + LET_GO_POLL_MS


def test_a_worker_that_waits_for_nothing_but_answers_is_woken_by_nothing_else() -> None:
    assert hanging().effects.wake_at == FOREVER


def test_it_wakes_now_and_then_to_see_whether_what_is_busy_is_quiet() -> None:
    bench = hanging(lanes=600)
    WorkerBench(bench)
    bench.settle("renew", "roster")

    bench.later(LET_GO_POLL_MS)

    assert not bench.is_open("release")
    assert bench.effects.wake_at == bench.boot + LET_GO_POLL_MS


def test_what_waits_for_a_read_that_is_under_way_wakes_nobody() -> None:
    bench = hanging()

    bench.worker.wake([LaneId(n) for n in range(1, BATCH_MAX + 2)])

    assert bench.turn().wake_at == FOREVER
    assert len(bench.call("reload").args[0]) == BATCH_MAX


def test_it_wakes_when_a_head_is_due() -> None:
    bench = hanging(lanes=1)
    [send] = bench.sends
    bench.end(send, 503)
    bench.turn()
    bench.later(LINGER_MS)
    bench.answer("commit")

    [lane] = bench.engine._heads.lanes.values()
    assert lane.next_at > T0
    assert bench.effects.wake_at == bench.worker.state.boot_at(lane.next_at) < bench.boot + 2_000


def test_it_wakes_when_outcomes_have_gathered_for_long_enough() -> None:
    bench = hanging(lanes=1)
    bench.end(bench.sends[0], 503)

    bench.turn()

    assert not bench.is_open("commit")
    assert bench.effects.wake_at == bench.boot + LINGER_MS


def test_it_wakes_to_repeat_a_commit_that_failed() -> None:
    bench = hanging(lanes=1)
    bench.end(bench.sends[0])
    bench.turn()

    bench.fail("commit", roll=0.5)

    assert bench.effects.wake_at == bench.boot + AGAIN_MS


def test_it_wakes_to_repeat_each_read_that_failed() -> None:
    turn = Health("ep", 1, BreakerState.OPEN, T0)
    for verb, ask in (
        ("reload", lambda bench: bench.worker.wake([LaneId(1)])),
        ("note_health", lambda bench: bench.worker.breaker_turns.add([turn])),
    ):
        bench = hanging()
        ask(bench)
        bench.turn()

        bench.fail(verb)

        assert bench.effects.wake_at == bench.boot + REST_MS, verb
        bench.later(REST_MS)
        assert bench.is_open(verb)


def test_it_wakes_to_read_once_more_the_event_that_is_due() -> None:
    bench = WorkerBench(start=False, lanes=1)
    bench.turn()
    bench.settle()
    bench.fail("fetch")
    bench.later(PART_MS)
    assert bench.is_open("poll")
    assert bench.is_open("renew")

    assert bench.effects.wake_at == REST_MS


def test_one_that_is_stopped_wakes_when_the_grace_of_what_is_in_flight_is_over() -> None:
    bench = hanging(lanes=1)

    bench.worker.stop(bench.boot)
    bench.turn()

    assert bench.effects.wake_at == bench.boot + GRACE_MS
    assert bench.later(GRACE_MS).is_drained
