"""The playground runs the real sender and real receivers: seeds repeat, our receiver is right, the samples are not."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.support.pace import scaled_s

from hooklane.errors import UsageError
from hooklane.testing.play import SCENARIOS, Faults, Play, Trace, play
from hooklane.testing.play.run import TooLong
from hooklane.testing.play.trace import RECEIVERS, CrashPoint, Meter, WorkerCrashPoint

NAMES = [scenario.name for scenario in SCENARIOS]
ROUGH = Faults(drop_request=0.15, drop_ack=0.2, duplicate=0.2, delay_ms=150, crash=0.1, reorder_ms=4_000)


def is_clean(meter: Meter) -> bool:
    return not (meter.lost or meter.twice or meter.out_of_order or meter.stale)


@pytest.mark.parametrize("name", NAMES)
def test_each_scenario_is_told_the_same_again_and_our_receiver_applies_each_event_once(name: str) -> None:
    trace = play(Play(scenario=name, seed=7))

    assert msgspec.json.encode(play(Play(scenario=name, seed=7))) == msgspec.json.encode(trace)
    assert is_clean(trace.meters["ours"])
    assert trace.meters["ours"].once == trace.ledger.delivered
    assert trace.ledger.delivered + trace.ledger.dead + trace.ledger.waiting == trace.events
    assert play(Play(scenario=name, seed=7), store="sqlite").meters == trace.meters


def test_a_trace_is_the_same_in_every_process() -> None:
    script = "from hooklane.testing.play import *; print(play(Play(scenario='lost-ack', seed=3, events=20)).trace_hash)"
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "5", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=scaled_s(60),
    ).stdout

    assert told == f"{play(Play(scenario='lost-ack', seed=3, events=20)).trace_hash}\n"
    assert told != f"{play(Play(scenario='lost-ack', seed=4, events=20)).trace_hash}\n"


@pytest.mark.parametrize("seed", range(2))
def test_in_rough_weather_only_our_receiver_stays_right(seed: int) -> None:
    trace = play(Play(scenario="four-events", seed=seed, events=40, keys=4, faults=ROUGH))

    assert is_clean(trace.meters["ours"])
    assert trace.ledger.delivered + trace.ledger.dead + trace.ledger.waiting == 40
    for sample in ("naive", "check_then_mark", "delivered_at"):
        assert trace.meters[sample].twice, sample


def test_each_sample_fails_where_its_defect_is() -> None:
    def wrong(name: str) -> dict[str, Meter]:
        meters = play(Play(scenario=name, seed=7)).meters
        return {receiver: meter for receiver, meter in meters.items() if not is_clean(meter)}

    assert not wrong("four-events")
    assert not wrong("timeout")
    assert set(wrong("lost-ack")) == {"naive", "delivered_at"}
    assert wrong("double-delivery")["naive"].stale == 1
    assert wrong("late-retry")["delivered_at"].stale == 1, "an attempt's time is newer than the event"
    assert wrong("two-workers")["check_then_mark"].twice == 2, "both workers saw that the id was new"
    assert wrong("poison")["naive"].twice == 1, "what a failed handler wrote without a transaction stays"


def test_the_order_of_a_key_is_visible_in_the_steps() -> None:
    trace = play(Play(scenario="timeout", seed=1))

    def first(kind: str, key: str, seq: int) -> int:
        return next(at for at, one in enumerate(trace.steps) if (one.kind, one.key, one.seq) == (kind, key, seq))

    assert first("acked", "A", 1) < first("sent", "A", 2)
    assert first("acked", "B", 2) < first("acked", "A", 1)
    assert [one.try_ for one in trace.steps if one.kind == "sent" and (one.key, one.seq) == ("A", 1)] == [1, 2, 3]


def test_a_poison_event_dies_and_what_is_behind_it_waits() -> None:
    trace = play(Play(scenario="poison", seed=1))

    assert (trace.ledger.delivered, trace.ledger.dead, trace.ledger.waiting) == (2, 1, 1)
    assert not [one for one in trace.steps if one.kind == "sent" and (one.key, one.seq) == ("A", 2)]


@pytest.mark.parametrize(
    ("point", "copies"), [("before_send", 1), ("before_answer", 2), ("before_commit", 2), ("after_commit", 1)]
)
def test_a_worker_that_dies_sends_a_copy_more_only_where_the_outcome_is_not_known(
    point: WorkerCrashPoint, copies: int
) -> None:
    faults = Faults(worker_crash=1.0, worker_crash_at=point)
    trace = play(Play(scenario="four-events", seed=3, events=6, keys=1, faults=faults))

    kinds = Counter(one.kind for one in trace.steps)
    assert kinds["worker_crashed"] == 6, "once for each event"
    assert Counter(one.seq for one in trace.steps if one.kind == "sent") == dict.fromkeys(range(1, 7), copies)
    assert [one.seq for one in trace.steps if one.kind == "acked"] == [1, 2, 3, 4, 5, 6]
    assert kinds["heard"] == (6 if copies == 1 or point == "before_answer" else 12), "none hears an answer when dead"
    assert is_clean(trace.meters["ours"])
    assert trace.meters["naive"].twice == 6 * (copies - 1)


@pytest.mark.parametrize(
    ("point", "wrong"),
    [
        ("before_work", set()),
        ("before_commit", {"naive", "check_then_mark", "delivered_at"}),
        ("before_answer", {"naive", "delivered_at"}),
    ],
)
def test_where_the_consumer_dies_decides_which_receivers_are_wrong(point: CrashPoint, wrong: set[str]) -> None:
    faults = Faults(crash=0.3, crash_at=point)
    meters = play(Play(scenario="four-events", seed=3, events=30, faults=faults)).meters

    assert {name for name, meter in meters.items() if not is_clean(meter)} == wrong


def test_events_are_published_at_the_rate_that_is_asked_for() -> None:
    def times(**asked: Any) -> list[float]:
        trace = play(Play(scenario="four-events", receivers=("naive",), **asked))
        return [one.t for one in trace.steps if one.kind == "published"]

    assert times(rate=5) == [0.0, 200.0, 400.0, 600.0], "its own story, at another pace"
    assert times(rate=100, events=6) == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    assert times(events=3) == [0.0, 25.0, 50.0]


def test_which_receivers_look_on_does_not_change_what_the_others_get() -> None:
    def seen(*receivers: str) -> tuple[Meter, list[tuple[float, str]]]:
        asked = {"scenario": "lost-ack", "seed": 5, "events": 40, "receivers": receivers}
        trace = play(msgspec.convert(asked, Play))
        wire = [(one.t, one.kind) for one in trace.steps if one.receiver is None]
        return trace.meters["naive"], wire

    assert seen("naive") == seen(*RECEIVERS) == seen("naive", "ours")


def test_the_last_tally_of_each_receiver_is_its_meter() -> None:
    trace = play(Play(scenario="lost-ack", seed=2, events=50))

    for receiver, meter in trace.meters.items():
        tallies = [one.tally for one in trace.steps if one.receiver == receiver and one.tally is not None]
        assert (tallies[-1].once, tallies[-1].twice, tallies[-1].out_of_order) == (
            meter.once,
            meter.twice,
            meter.out_of_order,
        )


def test_a_run_that_would_take_too_long_is_ended() -> None:
    with pytest.raises(TooLong):
        play(Play(scenario="lost-ack", events=200, faults=Faults(drop_ack=1.0)), took_s_max=0.0)


def test_an_unknown_scenario_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="four-events, timeout"):
        play(Play(scenario="nope"))


def test_a_trace_survives_being_written_and_read() -> None:
    trace = play(Play(scenario="two-workers", seed=1))

    assert msgspec.json.decode(msgspec.json.encode(trace), type=Trace) == trace
