"""`hooklane send --times --reorder --drop-ack`: copies of one event, straight to a real receiver over real HTTP."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended
from tests.promises.receiving.kit import SECRET
from tests.support.inline_shop import Shop
from tests.support.processes import free_port
from tests.support.receiver import Answer, Drop, Sink

Cli = Callable[..., Ended]
OTHER_SECRET = SECRET[:-4] + "ZWU="


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("HOOKLANE_SECRET", SECRET)
    shop = Shop(tmp_path, SECRET)
    yield shop
    shop.close()


def test_of_three_reordered_copies_one_is_applied_and_two_are_suppressed(cli: Cli, shop: Shop):
    ended = cli("send", "order.updated", '{"id": 1}', "--key", "order:1", "--to", shop.url, "--times", "3", "--reorder")

    *copies, summary = ended.out.splitlines()
    assert (ended.code, summary) == (0, "1 applied, 2 duplicates suppressed")
    assert [line.split()[1:7] for line in copies] == [
        ["order:1", "#1", "try", "3", "✓", "200"],
        ["order:1", "#1", "try", "2", "✓", "200"],
        ["order:1", "#1", "try", "1", "✓", "200"],
    ]
    assert ["applied" in copies[0], "duplicate" in copies[1], "duplicate" in copies[2]] == [True] * 3
    assert len(shop.effects()) == 1


def test_after_dropped_acks_the_copy_whose_answer_is_read_is_a_duplicate(cli: Cli, shop: Shop):
    ended = cli("send", "order.paid", "{}", "--to", shop.url, "--times", "3", "--drop-ack")

    *copies, summary = ended.out.splitlines()
    assert (ended.code, summary) == (0, "2 acks dropped, 1 duplicate suppressed")
    assert ["ack dropped" in line for line in copies] == [True, True, False]
    assert len(shop.effects()) == 1


def test_dropped_acks_and_reordering_mean_two_copies_by_themselves(cli: Cli, shop: Shop):
    assert cli("send", "order.paid", "--to", shop.url, "--drop-ack").out.endswith(
        "1 ack dropped, 1 duplicate suppressed\n"
    )
    assert cli("send", "order.paid", "--to", shop.url, "--reorder").out.endswith("1 applied, 1 duplicate suppressed\n")


def test_programs_get_one_object(cli: Cli, shop: Shop):
    value = cli("send", "order.paid", "--to", shop.url, "--times", "2", "--key", "k", "--seq", "1", "--json").json

    assert (value["v"], value["key"], value["seq"], shop.effects()) == (1, "k", 1, [value["event"]])
    assert [(one["attempt"], one["status"], one["said"]) for one in value["copies"]] == [
        (1, 200, "applied"),
        (2, 200, "duplicate"),
    ]


def test_a_copy_out_of_turn_is_not_taken(cli: Cli, shop: Shop):
    first = cli("send", "order.paid", "--to", shop.url, "--times", "1", "--key", "k", "--seq", "1", "--json").json
    ended = cli("send", "order.paid", "--to", shop.url, "--times", "1", "--key", "k", "--seq", "7")

    assert (ended.code, ended.talk) == (1, ["hooklane: HL001 the copy was not accepted by the receiver"])
    assert "409 held" in ended.out
    assert shop.effects() == [first["event"]]


def test_a_wrong_secret_is_refused_by_the_receiver_and_never_printed(cli: Cli, shop: Shop):
    ended = cli("send", "order.paid", "--to", shop.url, "--times", "2", "--secret", OTHER_SECRET)

    assert (ended.code, "2 rejected" in ended.out) == (1, True)
    assert OTHER_SECRET not in ended.out + ended.err


def test_the_secret_may_come_from_a_file(cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.delenv("HOOKLANE_SECRET")
    monkeypatch.setenv("HOOKLANE_SECRET_FILE", str(tmp_path / "secret"))
    assert cli("send", "order.paid", "--to", shop.url, "--times", "1").code == 0

    monkeypatch.setenv("HOOKLANE_SECRET_FILE", str(tmp_path / "nowhere"))
    assert cli("send", "order.paid", "--to", shop.url, "--times", "1").code == 2


def test_copies_leave_no_faster_than_the_rate(cli: Cli, sink: Sink):
    began = time.monotonic()
    ended = cli("send", "a", "--to", sink.url(), "--times", "4", "--rate", "20/s", "--secret", SECRET)

    assert (ended.code, ended.out.splitlines()[-1]) == (0, "4 answered 200")
    assert time.monotonic() - began >= 3 / 20
    assert len({request.body for request in sink.requests}) == 1


def test_every_copy_has_the_same_id_and_bytes_and_its_own_attempt(cli: Cli, sink: Sink):
    cli("send", "a", '{"x": 1.50}', "--to", sink.url("/in?a=b"), "--times", "3", "--key", "ключ", "--secret", SECRET)

    assert [request.headers["x-attempt"] for request in sink.requests] == ["1", "2", "3"]
    assert {(request.path, request.headers["x-seq"], request.headers["x-prev-seq"]) for request in sink.requests} == {
        ("/in?a=b", "1", "0")
    }
    [(event_id, body)] = {(request.headers["webhook-id"], request.body) for request in sink.requests}
    assert (json.loads(body)["id"], json.loads(body)["key"], b'"data":{"x": 1.50}' in body) == (event_id, "ключ", True)


def test_a_receiver_that_fails_for_some_copies_is_told_apart(cli: Cli, sink: Sink):
    sink.follow([Answer(), Answer(status=503, headers={"hooklane-outcome": "bu\x1bsy"}), Drop(reset=True)])
    ended = cli("send", "a", "--to", sink.url(), "--times", "3", "--secret", SECRET)

    assert (ended.code, ended.talk) == (6, ["hooklane: HL006 2 of 3 copies were not accepted by the receiver"])
    assert ended.out.splitlines()[-1] == "1 answered 200, 1 bu\\x1bsy, 1 without an answer"


@pytest.mark.parametrize("reset", [False, True])
def test_a_first_copy_without_an_answer_has_reached_the_receiver_and_the_others_follow(
    cli: Cli, sink: Sink, reset: bool
):
    sink.follow([Drop(reset=reset), Answer(), Answer()])
    ended = cli("send", "a", "--to", sink.url(), "--times", "3", "--secret", SECRET)

    assert (ended.code, ended.talk) == (6, ["hooklane: HL006 1 of 3 copies was not accepted by the receiver"])
    assert ended.out.splitlines()[-1] == "1 without an answer, 2 answered 200"


def test_nobody_at_the_url_is_exit_5(cli: Cli):
    ended = cli("send", "a", "--to", f"127.0.0.1:{free_port()}", "--times", "3", "--secret", SECRET)

    assert (ended.code, ended.out, len(ended.talk)) == (5, "", 1)


URL = "http://127.0.0.1:9/in"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--times", "2", "--reorder"), "--to"),
        (("--drop-ack",), "--to"),
        (("--times", "2", "--to", URL, "--to", URL), "--to"),
        (("--times", "2", "--to", "ftp://x"), "--to"),
        (("--times", "2", "--to", "http://x:port"), "--to"),
        (("--times", "2", "--to", "http://127.0.0.1:9/ü"), "--to"),
        (("--times", "0", "--to", URL), "--times"),
        (("--times", "1", "--reorder", "--to", URL), "--times 2"),
        (("--times", "1", "--drop-ack", "--to", URL), "--times 2"),
        (("--times", "2", "--to", URL, "--server", "http://127.0.0.1:9"), "--server"),
        (("--times", "2", "--to", URL, "--db", "sqlite:///x.db"), "--db"),
        (("--times", "2", "--to", URL, "--idempotency-key", "x"), "--idempotency-key"),
        (("--times", "2", "--to", URL, "--seq", "2"), "--key"),
        (("--times", "2", "--to", URL, "--rate", "fast"), "--rate"),
        (("--times", "2", "--to", URL, "--timeout", "-1"), "--timeout"),
        (("--times", "2", "--to", URL, "--secret", "whsec_?"), "secret"),
        (("--to", URL), "--times"),
        (("--rate", "2/s"), "--times"),
        (("--seq", "2", "--key", "k"), "--times"),
        (("--secret", SECRET), "--times"),
    ],
)
def test_flags_that_do_not_go_together_are_a_usage_error(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: str
):
    if "--secret" not in words and "--times" in words:
        monkeypatch.setenv("HOOKLANE_SECRET", SECRET)
    ended = cli("send", "a", "{}", *words)

    assert (ended.code, ended.out) == (2, "")
    assert named in ended.err, ended.err
    assert "Traceback" not in ended.err


def test_copies_without_a_secret_ask_for_one(cli: Cli):
    ended = cli("send", "a", "--to", URL, "--times", "2")

    assert (ended.code, ended.talk) == (2, ["hooklane: HL002 give the secret with --secret or HOOKLANE_SECRET"])
