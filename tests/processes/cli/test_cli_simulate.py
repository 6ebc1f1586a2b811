"""`hooklane simulate`: the playground from a terminal."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended
from tests.promises.receiving.kit import SECRET
from tests.support.inline_shop import Shop
from tests.support.receiver import Answer, Sink

from hooklane.testing.play import Faults, Play, play

Cli = Callable[..., Ended]


def test_receivers_stand_side_by_side_and_a_seed_repeats(cli: Cli) -> None:
    ended = cli("simulate", "lost-ack", "--receiver", "naive,ours", "--seed", "7", "--events", "60")

    head, naive, ours, told = ended.out.splitlines()
    assert head.split() == ["sent", "once", "twice", "lost", "out", "of", "order", "stale"]
    assert naive.split()[0] == "naive"
    assert int(naive.split()[3]) > 0
    assert ours.split() == ["ours", "60", "60", "0", "0", "0", "0"]
    assert "seed 7" in told
    assert cli("simulate", "lost-ack", "--receiver", "naive,ours", "--seed", "7", "--events", "60").out == ended.out


def test_programs_get_the_whole_trace(cli: Cli) -> None:
    value = cli("simulate", "two-workers", "--events", "0", "--seed", "4", "--json").json

    assert value["v"] == 1
    assert value["trace_hash"] == play(Play(scenario="two-workers", seed=4)).trace_hash
    assert value["steps"][0]["kind"] == "published"


def test_rate_and_crash_points_are_those_of_the_page_and_the_exported_line_asks_for_the_same(
    cli: Cli, tmp_path: Path
) -> None:
    faults = ["crash=0.1", "crash-at=before-commit", "worker-crash=0.2", "worker-crash-at=after-commit"]
    asked = ["--events", "20", "--rate", "50", *(word for one in faults for word in ("--fault", one))]
    value = cli("simulate", "lost-ack", "--seed", "4", *asked, "--json").json

    chances = Faults(crash=0.1, crash_at="before_commit", worker_crash=0.2, worker_crash_at="after_commit")
    wanted = Play(scenario="lost-ack", seed=4, events=20, rate=50, faults=chances)
    assert value["trace_hash"] == play(wanted).trace_hash
    for arguments in (["--events", "0"], asked):
        target = tmp_path / "test_it.py"
        cli("simulate", "lost-ack", "--seed", "4", *arguments, "--export-test", str(target))
        line = target.read_text().partition("`hooklane ")[2].partition("`")[0]
        assert (
            cli(*line.split(), "--json").json == cli("simulate", "lost-ack", "--seed", "4", *arguments, "--json").json
        )


def test_a_scenario_can_come_from_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.TextIOWrapper(io.BytesIO(b'{"scenario": "poison", "receivers": ["ours"]}'))
    monkeypatch.setattr(sys, "stdin", given)

    ended = cli("simulate", "-", "--seed", "2")

    assert "1 dead letter, 1 waiting behind" in ended.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1]")))
    assert cli("simulate", "-").code == 2


def test_an_assertion_ends_with_the_code_of_what_is_unhealthy(cli: Cli) -> None:
    assert cli("simulate", "lost-ack", "--events", "0", "--receiver", "ours", "--assert").code == 0
    ended = cli("simulate", "lost-ack", "--events", "0", "--receiver", "naive", "--assert")
    assert (ended.code, "2 twice" in ended.err) == (7, True)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["nope"], 3, "two-workers"),
        (["lost-ack", "--fault", "drop-ack"], 2, "drop-ack=0.1"),
        (["lost-ack", "--fault", "crash-at=lunch"], 2, "crash_at"),
        (["lost-ack", "--rate", "0"], 2, "rate"),
        (["lost-ack", "--fault", "drop-ack=7"], 2, "drop_ack"),
        (["lost-ack", "--events", "201"], 2, "events"),
        (["lost-ack", "--receiver", "theirs"], 2, "receivers"),
        (["lost-ack", "--store", "redis"], 2, "memory or sqlite"),
        (["lost-ack", "--secret", "whsec_x"], 2, "--target"),
        (["lost-ack", "--export-test", "no/such/folder/test_x.py", "--events", "0"], 1, "cannot write"),
    ],
)
def test_what_cannot_be_done_is_one_line(cli: Cli, arguments: list[str], code: int, word: str) -> None:
    ended = cli("simulate", *arguments)

    assert (ended.code, len(ended.talk), word in ended.err) == (code, 1, True), ended


def test_without_a_name_the_scenarios_are_listed(cli: Cli) -> None:
    assert len(cli("simulate").out.splitlines()) == 9


def test_a_scenario_is_written_as_a_test(cli: Cli, tmp_path: Path) -> None:
    ended = cli("simulate", "double-delivery", "--events", "0", "--export-test", "test_mine.py", "--fault", "crash=0.5")

    assert ended.code == 0
    assert "simulate double-delivery --seed 1 --events 0 --fault crash=0.5" in (tmp_path / "test_mine.py").read_text()
    assert cli("simulate", "double-delivery", "--events", "0", "--export-test", "-").out.startswith(
        '"""Double delivery'
    )


def test_copies_are_sent_to_a_real_receiver_which_applies_each_event_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKLANE_SECRET", SECRET)
    shop = Shop(tmp_path, SECRET)
    try:
        ended = cli("simulate", "flapping", "--events", "12", "--keys", "2", "--target", shop.url, "--assert")
    finally:
        shop.close()

    assert ended.code == 0, ended
    assert ended.out.splitlines()[-1].endswith("copies of 12 events: 12 accepted, 0 applied twice")
    assert len(set(shop.effects())) == len(shop.effects()) == 12


def test_a_receiver_that_refuses_fails_the_assertion_and_no_other_host_is_sent_to(cli: Cli, sink: Sink) -> None:
    sink.react = lambda _: Answer(status=500)
    shot = ["simulate", "four-events", "--events", "0", "--secret", SECRET, "--assert", "--target"]

    assert cli(*shot, sink.url("/x")).code == 7
    ended = cli(*shot, "https://8.8.8.8/x")
    assert (ended.code, "HOOKLANE_EGRESS_ALLOW" in ended.err or "not allowed" in ended.err) == (1, True)
