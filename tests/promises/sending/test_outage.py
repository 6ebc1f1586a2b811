"""What an outage costs and how it ends, in simulated time: an endpoint that is down is left alone, and comes back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.promises.sending.town import BROKEN, OK, Town, peak, per_lane, slow_clockwork

from hooklane.model.exchange import Answer, Failure, NoAnswer, Timings
from hooklane.model.health import BreakerState

HOUR_MS = 3_600_000
LIMIT = 50
KEYS = 200


@pytest.fixture(autouse=True)
def clockwork(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_clockwork(monkeypatch)


def state_of(town: Town, endpoint_id: str) -> BreakerState:
    health = town.store.tables.health.get(endpoint_id)
    return BreakerState.CLOSED if health is None else health.state


def settled_in(workers: int = 2, **rules: object) -> Town:
    """A town with one endpoint whose workers have their shares."""
    town = Town(workers)
    town.endpoint("ep", **rules)
    town.run(25_000)
    assert {len(worker.epochs) for worker in town.workers} == {256 // workers}
    return town


@pytest.mark.parametrize("outage_ms", [HOUR_MS // 6, pytest.param(HOUR_MS, marks=pytest.mark.soak)])
def test_an_hour_of_failures_burns_no_tries_and_ends_within_a_minute_at_no_more_than_the_limit(outage_ms: int) -> None:
    town = settled_in(rate_limit=float(LIMIT))
    is_down = True
    town.post.react = lambda _: BROKEN if is_down else OK
    began, published = town.now, 0

    def publish_every_second() -> None:
        nonlocal published
        published += 1
        town.publish("ep", f"key-{published % KEYS}")
        if is_down:
            town.world.after(1_000.0, publish_every_second)

    for n in range(KEYS):
        town.publish("ep", f"key-{n}")
    publish_every_second()
    town.run(outage_ms)
    during = town.sends(began)
    firsts = [send for send in during if send.attempt == 1]
    is_down, healed = False, town.now
    town.run_until(lambda: town.store.owed_count == 0, 180_000)
    after = town.times("ep", healed)
    full_at = next(at for at in after if sum(at <= other < at + 5_000 for other in after) >= 0.9 * LIMIT * 5)

    print(
        f"{len(during)} attempts ({len(firsts)} first ones) in the outage for {published + KEYS} events, at most"
        f" {max(per_lane(during).values())} of a lane; full rate {(full_at - healed) / 1000:.1f} s after the end,"
        f" peak {peak(town.times('ep'))}/s of {LIMIT}/s"
    )
    assert town.count("dead") == 0
    assert not town.checker.violations  # among them: no attempt before its time, none beyond attempts_max
    assert len(during) <= 1.2 * len(firsts)  # Q13: a naive sender would make twelve times as many
    assert full_at - healed <= 60_000
    assert peak(town.times("ep")) <= 1.1 * LIMIT


def test_a_whole_outage_makes_fewer_attempts_than_one_retry_of_each_event() -> None:
    """F33: all endpoints fail at once under load, and heal at once."""
    town = Town(2)
    endpoints = [town.endpoint(f"ep-{n}", in_flight_max=16).id for n in range(20)]
    town.run(25_000)
    town.post.react = lambda _: BROKEN
    began, events = town.now, 0
    for second in range(60):
        for endpoint_id in endpoints:
            for n in range(3):
                town.publish(endpoint_id, f"key-{(3 * second + n) % 60}")
                events += 1
        town.run(1_000)
    attempts = town.sends(began)
    firsts = [send for send in attempts if send.attempt == 1]
    town.post.react = lambda _: OK
    took_ms = town.run_until(lambda: town.store.owed_count == 0, 120_000)

    print(
        f"{len(attempts)} attempts, {len(firsts)} of them first ones, for {events} events; drained in {took_ms:.0f} ms"
    )
    assert len(attempts) <= 1.2 * events
    assert town.count("dead") == 0
    assert took_ms <= 60_000
    assert not town.checker.violations


@pytest.mark.parametrize("many", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_endpoints_that_heal_together_are_not_stormed(many: int) -> None:
    """Q15: each comes back within its own limit, none after the others by much, and in order."""
    town = Town(2)
    endpoints = [town.endpoint(f"ep-{n}", rate_limit=10.0, in_flight_max=8).id for n in range(many)]
    town.run(25_000)
    town.post.react = lambda _: BROKEN
    for endpoint_id in endpoints:
        for n in range(24):
            town.publish(endpoint_id, f"key-{n % 8}")
    town.run(120_000)
    town.post.react = lambda _: OK
    healed = town.now
    took_ms = town.run_until(lambda: town.store.owed_count == 0, 300_000)

    by_endpoint: dict[str, list[float]] = {endpoint_id: [] for endpoint_id in endpoints}
    for at, send in town.post.log:
        if at >= healed:
            by_endpoint[send.endpoint.id].append(at)
    peaks = [peak(times) for times in by_endpoint.values()]
    print(f"{len(town.sends(healed))} sent in {took_ms:.0f} ms; the highest peak is {max(peaks)}/s of 10/s")
    assert max(peaks) <= 11
    assert not town.checker.violations
    assert town.count("dead") == 0


def test_one_probe_at_a_time_over_all_workers() -> None:
    """F34."""
    town = settled_in(workers=4, timeout_ms=3_000)
    town.post.took_ms = 2_000.0
    town.post.react = lambda _: NoAnswer(Failure.TIMEOUT, Timings(2_000.0), sent=True)
    for n in range(KEYS):
        town.publish("ep", f"key-{n}")
    town.run_until(lambda: state_of(town, "ep") is BreakerState.OPEN, 30_000)
    town.run(5_000)  # what was in flight when it opened ends, and every worker hears of it
    held_from = town.now
    town.run(600_000)

    probes = town.times("ep", held_from)
    lanes = per_lane(town.sends(held_from))
    print(f"{len(probes)} probes in ten minutes, at most {max(lanes.values())} with one lane")
    assert len(probes) > 10
    assert min(later - earlier for earlier, later in pairwise(probes)) >= town.post.took_ms
    assert town.count("dead") == 0
    assert not town.checker.violations


def test_a_prober_that_dies_is_replaced_by_another_worker() -> None:
    town = settled_in(workers=2, timeout_ms=1_000)
    town.post.took_ms = 900.0
    town.post.react = lambda _: BROKEN
    for n in range(KEYS):
        town.publish("ep", f"key-{n}")
    town.run_until(lambda: state_of(town, "ep") is BreakerState.PROBING, 60_000)
    prober = town.store.tables.health["ep"].by
    (dead,) = [worker for worker in town.workers if worker.name == prober]
    dead.crash()
    town.post.react = lambda _: OK
    town.run_until(lambda: town.store.owed_count == 0, 120_000)

    assert town.store.tables.health["ep"].by != prober
    assert state_of(town, "ep") in (BreakerState.RAMPING, BreakerState.CLOSED)


def test_a_worker_that_starts_anew_still_leaves_the_endpoint_alone() -> None:
    town = settled_in(workers=1)
    town.post.react = lambda _: BROKEN
    for n in range(KEYS):
        town.publish("ep", f"key-{n}")
    town.run_until(lambda: state_of(town, "ep") is BreakerState.OPEN, 30_000)
    town.workers[0].crash()
    town.run(31_000)  # its lease
    sent = len(town.post.log)
    town.hire()
    town.run(2_000)

    assert len(town.post.log) - sent <= 1  # the probe, and not two hundred heads that are due


def test_a_poison_event_opens_nothing() -> None:
    town = settled_in(workers=1, backoff_ms=10, backoff_cap_ms=20)
    town.post.react = lambda send: Answer(422, Timings(1.0)) if send.key == "key-0" else OK
    for n in range(60):
        town.publish("ep", f"key-{n % 3}")
    town.run(5_000)

    assert town.count("dead") == 1
    assert state_of(town, "ep") is BreakerState.CLOSED
    assert len([one for one in town.sends() if one.key != "key-0"]) == 40


def test_want_of_room_on_our_side_is_no_attempt() -> None:
    """No connection was free, or no file descriptor: nothing is counted, nothing is logged, nothing dies of it."""
    town = settled_in(workers=1, attempts_max=2, backoff_ms=100)
    town.post.react = lambda _: NoAnswer(Failure.ABORTED, Timings(1.0), "no connection was free before the deadline")
    for n in range(40):
        town.publish("ep", f"key-{n}")
    town.run(10_000)
    tried = len(town.post.log)
    town.post.react = lambda _: OK
    town.run_until(lambda: town.store.owed_count == 0, 5_000)

    assert tried > 40 * 20
    assert {send.attempt for send in town.sends()} == {1}
    assert town.count("dead") == 0
    assert state_of(town, "ep") is BreakerState.CLOSED
    assert all(len(log) == 1 for log in town.store.tables.attempts.values())
    gaps = [b - a for lane in set(per_lane(town.sends())) for a, b in pairwise(_times_of(town, lane))]
    assert min(gaps) >= 100


def _times_of(town: Town, lane_id: int) -> list[float]:
    return [at for at, send in town.post.log if send.lane_id == lane_id]
