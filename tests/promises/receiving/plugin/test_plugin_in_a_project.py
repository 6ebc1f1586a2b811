"""The plugin as pytest loads it in somebody's project: a file of tests that tells a good receiver from a naive one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pace import scaled_s
from tests.support.tree import SOURCE

TESTS = """
import pytest
from hooklane.testing.watch import POINTS


def paid(webhooks):
    return webhooks.stripe("invoice.paid", data={"object": {"id": "in_1"}})


def test_one_payment_for_copies_one_after_the_other(webhooks, payments):
    webhooks.deliver(paid(webhooks), copies=3)
    assert payments() == ["in_1"]


def test_one_payment_for_copies_at_once(webhooks, payments):
    webhooks.deliver(paid(webhooks), copies=5, concurrent=True)
    assert payments() == ["in_1"]


def test_one_payment_when_the_provider_tries_again(webhooks, payments):
    event = paid(webhooks)
    webhooks.deliver(event)
    webhooks.deliver(webhooks.retry(event))
    assert payments() == ["in_1"]


def test_no_payment_for_what_was_tampered_with(webhooks, payments):
    webhooks.deliver(webhooks.tampered(paid(webhooks)))
    assert payments() == []
    assert webhooks.statuses == [401]
"""

CRASHES = """
@pytest.mark.parametrize("at", POINTS)
def test_one_payment_after_a_crash(webhooks, payments, at):
    webhooks.crash(paid(webhooks), at)
    assert payments() == ["in_1"]
"""

OURS = """
import sqlite3
import pytest
from hooklane import Inbox


@pytest.fixture
def path(tmp_path):
    with sqlite3.connect(tmp_path / "app.db") as conn:
        conn.execute("CREATE TABLE payments (invoice TEXT)")
    return tmp_path / "app.db"


@pytest.fixture
def payments(path):
    return lambda: [row[0] for row in sqlite3.connect(path).execute("SELECT invoice FROM payments")]


@pytest.fixture(params=["durable", "inline"])
def inbox(path, request):
    inbox = Inbox(f"sqlite:///{path}", request.param)

    @inbox.source("stripe", secrets=["whsec_x"]).on("invoice.paid")
    def paid(event, tx):
        tx.execute("INSERT INTO payments VALUES (?)", (event.data["object"]["id"],))

    yield inbox
    inbox.close()
"""

# As the samples have it: check, work, mark. Tests that deliver copies one after the other find nothing wrong.
NAIVE = """
import hashlib
import hmac
import json
import sqlite3
import threading

import pytest


class Receiver:
    def __init__(self):
        self.seen, self.paid, self.met = set(), [], threading.Barrier(2)

    def __call__(self, request):
        fields = dict(part.split("=") for part in dict(request.headers)["stripe-signature"].split(","))
        code = hmac.new(b"whsec_x", fields["t"].encode() + b"." + request.body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(code, fields["v1"]):
            return 401
        event = json.loads(request.body)
        if event["id"] in self.seen:
            return 200
        try:  # a handler takes a while: long enough for another copy to come by
            self.met.wait(0.3)
        except threading.BrokenBarrierError:
            self.met.reset()
        self.paid.append(event["data"]["object"]["id"])
        self.seen.add(event["id"])
        return 200


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def payments(receiver):
    return lambda: receiver.paid


@pytest.fixture(autouse=True)
def under_test(webhooks, receiver):
    webhooks.use(receiver, secrets={"stripe": "whsec_x"})
"""


def run(folder: Path, *, by_name: bool = True) -> subprocess.CompletedProcess[str]:
    """pytest in *folder*: with this plugin alone, *by_name*, or with all that are installed."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if by_name else {}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(["-p", "hooklane.testing.plugin"] if by_name else [])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE, **alone},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )


def project(folder: Path, conftest: str, tests: str) -> Path:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_payments.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def test_traps_23_a_good_receiver_passes(tmp_path):
    ended = run(project(tmp_path, OURS, TESTS + CRASHES))

    assert ended.returncode == 0, ended.stdout
    assert "16 passed" in ended.stdout


def test_traps_23_a_naive_receiver_is_found_out_by_copies_at_once_and_by_nothing_less(tmp_path):
    ended = run(project(tmp_path, NAIVE, TESTS))

    assert ended.returncode == 1, ended.stdout
    assert "1 failed, 3 passed" in ended.stdout
    assert "FAILED test_payments.py::test_one_payment_for_copies_at_once" in ended.stdout


def test_without_an_inbox_the_fixture_says_what_is_missing(tmp_path):
    tests = "def test_it(webhooks):\n    webhooks.stripe('invoice.paid')\n"
    ended = run(project(tmp_path, "", tests))

    assert "make a fixture called `inbox` that returns yours, or call webhooks.use(inbox)" in ended.stdout


def test_a_test_that_asks_for_an_inbox_by_mistake_is_told_as_without_the_plugin(tmp_path):
    ended = run(project(tmp_path, "", "def test_it(inbox): ...\n"))

    assert "fixture 'inbox' not found" in ended.stdout


UNUSED = """
import sys
def test_nothing_of_hooklane_is_loaded():
    loaded = sorted(name for name in sys.modules if name.startswith("hooklane"))
    assert loaded == ["hooklane", "hooklane.errors", "hooklane.testing", "hooklane.testing.plugin"], loaded
"""


def test_it_costs_nothing_when_it_is_not_used(tmp_path):
    ended = run(project(tmp_path, "", UNUSED), by_name=False)

    assert ended.returncode == 0, ended.stdout


WRONG = """
def test_a_handler_that_raises(webhooks):
    event = webhooks.stripe("invoice.paid", data={"invoice": "in_1"})
    webhooks.deliver(event)
    assert webhooks.applied(event) == 1


def test_a_type_that_nobody_handles(webhooks):
    event = webhooks.stripe("invoice.payed")
    webhooks.deliver(event)
    assert webhooks.applied(event) == 1
"""


def test_a_failed_test_says_what_the_handler_raised_and_what_was_answered(tmp_path):
    ended = run(project(tmp_path, OURS.replace('["durable", "inline"]', '["durable"]'), WRONG))

    assert ended.returncode == 1, ended.stdout
    raised, unhandled = ended.stdout.split("test_a_type_that_nobody_handles", 1)
    assert "paid raised on <Event stripe invoice.paid" in raised
    assert "KeyError: 'object'" in raised
    assert "<webhooks, last answered [200] ['ignored']>" in unhandled
