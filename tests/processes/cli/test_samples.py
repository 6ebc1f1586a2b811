"""The samples of the command line, run as they are written: what is printed, and the exit codes."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes.cli.conftest import SOURCE, Ended
from tests.processes.cli.test_cli_verify import BODY, SECRET, request
from tests.promises.receiving.kit import SECRET as SHOP_SECRET
from tests.support.inline_shop import Shop
from tests.support.processes import until
from tests.support.receiver import Answer, Drop, Request, Sink
from tests.support.terminal import Terminal

Cli = Callable[..., Ended]


@contextmanager
def terminal(folder: Path, *words: str, **env: str) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "hooklane", *words]
    with Terminal(command, cwd=folder, env={"PYTHONPATH": SOURCE, **env}) as opened:
        yield opened


def columns(line: str) -> list[str]:
    return [part for part in line.split("  ") if part.strip()]


def test_dev_forward_to_shows_its_header_and_one_line_for_each_attempt(tmp_path: Path, sink: Sink):
    mended = threading.Event()
    browser = tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o700)

    def react(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(status=404)
        if b"order.updated" in request.body and not mended.is_set():
            return Answer(status=503)
        return Answer(headers={"hooklane-outcome": "stored"})

    sink.react = react
    to = f"localhost:{sink.port}/webhooks"
    words = ("dev", "--forward-to", to, "--port", "0", "--no-open")
    with terminal(tmp_path, *words, BROWSER=f"{browser} %s") as screen:
        screen.wait_for(r"^  hooklane [0-9.]+  ·  data \.hooklane/dev\.db \(kept between runs\)$")
        url = screen.wait_for(r"^  Dashboard    (http://127\.0\.0\.1:\d+)$")[1]
        screen.wait_for(rf"^  Send to      {url}/in/dev$")
        screen.wait_for(rf"^  Forward to   http://{to}   ✓ answering \(404 on HEAD\)$")
        screen.wait_for(r"^  Secret       whsec_[\w+/]{4}…  \(same after restart\)   export HOOKLANE_SECRET=whsec_\S+$")
        screen.wait_for(r"^  Local only: no public URL\.")
        screen.wait_for(r"^  \[s\] send sample  \[r\] replay last  \[f\] faults  \[o\] open  \[q\] quit$")
        screen.press("s")
        screen.wait_for(r"^\d\d:\d\d:\d\d  ✓ order\.created +order:1 #1 +200 +\d+ ms   stored$")
        screen.press("s")
        screen.wait_for(r"^\d\d:\d\d:\d\d  ↻ order\.updated +order:1 #2 +503 +\d+ ms   try 1/35, next in \d\.\d s$")
        screen.press("s")
        screen.wait_for(r"^\d\d:\d\d:\d\d  ▨ order\.paid +order:1 #3 +waits for #2$")
        mended.set()
        screen.wait_for(r"✓ order\.updated +order:1 #2 +200")
        screen.wait_for(r"✓ order\.paid +order:1 #3 +200")
        screen.press("r")
        screen.wait_for(r"replaying evt_\w+")
        screen.wait_for(r"(?s)✓ order\.paid +order:1 #3 +200.*✓ order\.paid +order:1 #3 +200")
        screen.press("ff")
        screen.wait_for(r"the endpoint is down \(503\)")
        screen.press("s")
        screen.wait_for(r"↻ order\.created +order:2 #1 +503")
        screen.press("f")
        screen.wait_for(r"faults are off")
        screen.wait_for(r"✓ order\.created +order:2 #1 +200")
        screen.press("o")
        opened = until(lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text(), what="the browser")
        screen.press("q")

        assert screen.wait() == 0
        assert opened.strip().rstrip("/") == url
    assert "Traceback" not in screen.seen


def test_dev_says_words_where_the_terminal_has_no_signs(tmp_path: Path, sink: Sink):
    env = {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    with terminal(tmp_path, "dev", "--forward-to", sink.url("/"), "--port", "0", "--no-open", **env) as screen:
        screen.wait_for(r"\[q\] quit")
        screen.press("s")
        screen.wait_for(r"^\d\d:\d\d:\d\d  delivered order\.created +order:1 #1 +200")
        screen.press("q")

        assert screen.wait() == 0
    assert "\x1b[3" not in screen.raw


def test_send_times_two_with_wait_shows_one_applied_and_one_duplicate(cli: Cli, server: str, tmp_path: Path):
    shop = Shop(tmp_path, SHOP_SECRET)
    try:
        assert cli("endpoints", "add", shop.url, "--name", "shop", "--secret", SHOP_SECRET).code == 0
        ended = cli("send", "order.paid", '{"order":"o_1"}', "--key", "order:1", "--times", "2", "--wait")

        assert ended.code == 0, ended
        first, second = (columns(line) for line in ended.out.splitlines())
        assert [part.strip() for part in first[1:3]] == ["order:1 #1", "✓ 200 applied"]
        assert [part.strip() for part in second[1:3]] == ["order:1 #1", "✓ 200 duplicate"]
        assert second[-1].strip() == "(suppressed by the receiver)"
        assert len(shop.effects()) == 1
    finally:
        shop.close()


@pytest.fixture
def stuck(cli: Cli, server: str, sink: Sink) -> dict[str, str]:
    """`order:1017` with a dead head #2 and three events behind it, `order:1005` retrying."""

    def react(request: Request) -> Answer | Drop:
        if b"order.updated" in request.body:
            return Answer(status=422, body=b"unknown sku")
        return Answer(status=503) if b"order:1005" in request.body else Answer()

    sink.react = react
    assert (
        cli("endpoints", "add", sink.url("/hooks"), "--name", "shop", "--attempts-max", "3", "--backoff-ms", "20").code
        == 0
    )
    assert cli("endpoints", "add", sink.url("/slow"), "--name", "slow", "--types", "slow.*").code == 0
    events = {}
    for type_ in ("order.created", "order.updated", "order.paid", "order.shipped", "order.closed"):
        events[type_] = cli("send", type_, "{}", "--key", "order:1017", "--to", "shop", "--json").json["id"]
    cli("send", "slow.paid", "{}", "--key", "order:1005", "--to", "slow")
    letters = until(lambda: cli("dlq", "ls", "--json").json["items"], what="a dead letter")
    until(lambda: cli("lanes", "ls", "--state", "retrying", "--json").json["items"], what="a retry")
    return {**events, "letter": letters[0]["id"]}


def test_lanes_ls_shows_what_waits_for_how_long_and_why(cli: Cli, stuck: dict[str, str]):
    head, *rows = cli("lanes", "ls", "--state", "blocked,retrying").out.splitlines()

    assert head.split() == ["KEY", "ENDPOINT", "HEAD", "WAITING", "FOR", "REASON"]
    [dead] = [columns(row) for row in rows if row.startswith("order:1017")]
    assert [part.strip() for part in dead[:4]] == ["order:1017", "shop", "#2 dead", "3"]
    assert dead[4].strip().endswith("s")
    assert dead[5].strip() == "422 unknown sku (3/3 tries)"
    [retrying] = [row for row in rows if row.startswith("order:1005")]
    assert "#1 retrying" in retrying
    assert "503" in retrying
    assert "next " in retrying


def test_events_why_says_what_would_make_it_move(cli: Cli, stuck: dict[str, str]):
    first, second = cli("events", "why", stuck["order.paid"]).out.splitlines()

    assert first.startswith("#3 order.paid waits for #2 order.updated (dead since ")
    assert first.endswith(', 422 "unknown sku").')
    letter = stuck["letter"]
    assert second == (
        f"Nothing moves on order:1017 until:  hooklane dlq replay {letter}   or   hooklane dlq skip {letter}"
    )


def test_dlq_skip_shows_its_plan_asks_for_a_note_and_for_the_key(
    cli: Cli, server: str, stuck: dict[str, str], tmp_path: Path, sink: Sink
):
    with terminal(tmp_path, "dlq", "skip", stuck["letter"]) as screen:
        screen.wait_for(r"^Plan pln_\w+: skip 1 event on 1 key \(expires in 5 min\)$")
        screen.wait_for(r"^  skip     order:1017 #2 order\.updated   never delivered$")
        screen.wait_for(rf"^  release  #3 order\.paid  #4 order\.shipped  #5 order\.closed  → {sink.url('/hooks')}$")
        screen.wait_for(r"^  consumer sees seq 1 → 3$")
        screen.wait_for(r"Note: ")
        screen.press("customer cancelled, OPS-412\n")
        screen.wait_for(r"Type order:1017 to confirm: ")
        screen.press("order:1017\n")
        screen.wait_for(r"^✓ skipped 1, released 3, delivered 3   \(audit \d+\)$")

        assert screen.wait() == 0


def test_dlq_skip_does_nothing_when_another_key_is_typed(server: str, stuck: dict[str, str], tmp_path: Path, cli: Cli):
    with terminal(tmp_path, "dlq", "skip", stuck["letter"], "--note", "x") as screen:
        screen.wait_for(r"Type order:1017 to confirm: ")
        screen.press("order:1\n")

        assert screen.wait() == 4
    assert cli("dlq", "show", stuck["letter"]).code == 0


def test_dlq_replay_by_filter_shows_a_bar_and_ends_with_6_when_some_fail_again(
    cli: Cli, server: str, sink: Sink, tmp_path: Path
):
    sink.react = lambda _: Answer(status=503)
    cli("endpoints", "add", sink.url(), "--name", "shop", "--attempts-max", "1", "--backoff-ms", "10")
    for number in range(6):
        cli("send", "order.paid", "{}", "--key", f"order:{number}")
    until(lambda: len(cli("dlq", "ls", "--json").json["items"]) == 6, what="dead letters")
    sink.react = lambda request: Answer(status=503 if request.headers["x-key"] == "order:3" else 200)

    words = ("dlq", "replay", "--filter", "endpoint:shop http:5xx after:-2h", "--rate", "20/s", "--yes")
    with terminal(tmp_path, *words) as screen:
        screen.wait_for(r"Replaying 6 events on 6 keys .*━.* 6/6")
        screen.wait_for(r"^✓ 5 delivered   ✕ 1 failed again \(1 key stays blocked\)$")

        assert screen.wait() == 6
    assert [one["key"] for one in cli("dlq", "ls", "--json").json["items"]] == ["order:3"]


def test_verify_reads_a_request_and_says_why_its_signature_does_not_fit(process: Callable[..., Ended]):
    raw = request(BODY, signed=BODY.replace(b" ", b""))
    ended = process("verify", env={"HOOKLANE_SECRET": SECRET}, stdin=raw)

    assert ended.code == 7
    assert "✓ headers present" in ended.out
    assert "✓ timestamp" in ended.out
    assert "✕ signature: no match with 1 secret" in ended.out
    assert "→ it matches if the body is re-serialised without spaces" in ended.out
    assert "await request.body()" in ended.out


def test_doctor_says_what_is_fine_and_what_is_not(cli: Cli, db: Path):
    cli("endpoints", "add", "https://127.0.0.1:1/", "--name", "shop")
    ended = cli("doctor")

    assert ended.code == 7
    lines = ended.out.splitlines()
    assert any(line.startswith(("✓ versions: Python 3.", "! versions: Python 3.")) for line in lines)
    assert any(line.startswith("✓ schema: ") for line in lines)
    assert any(line.startswith("✓ page: UI files present (") for line in lines)
    assert any(line.startswith("✕ endpoint shop: TLS") for line in lines)


def test_what_is_sent_from_another_terminal_appears_in_tail(cli: Cli, server: str, sink: Sink, tmp_path: Path):
    cli("endpoints", "add", sink.url(), "--name", "shop")
    with terminal(tmp_path, "tail") as screen:
        screen.wait_for("following, until Ctrl-C")
        assert cli("send", "order.created", '{"id":1}', "--key", "order:1").code == 0
        screen.wait_for(r"^\d\d:\d\d:\d\d  ✓ order\.created +order:1 #1 +shop +200")
        screen.press("\x03")

        assert screen.wait() == 0
