"""The how-tos of the receiver: their programs are programs, and what they say of pytest runs."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT, SOURCE

from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import Credentials

DOCS = ROOT / "docs" / "how-to"
PAGES = sorted(page.stem for page in DOCS.glob("*.md"))


def blocks(page: str) -> list[str]:
    found = re.findall(r"^( *)```python\n(.*?)^ *```", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for _, text in found]


@pytest.mark.parametrize("page", PAGES)
def test_every_program_of_a_page_compiles_and_every_link_leads_somewhere(page):
    for number, block in enumerate(blocks(page)):
        compile(block, f"{page}, block {number}", "exec")
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (DOCS / f"{page}.md").read_text())
    assert [link for link in links if not (DOCS / link).exists()] == []
    assert "Check yourself" in (DOCS / f"{page}.md").read_text()


@pytest.mark.parametrize("page", ["receive-in-fastapi", "receive-in-flask"])
def test_the_first_program_of_a_page_is_an_application(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "app"}
    exec(compile(blocks(page)[0], page, "exec"), names)

    assert names["app"] is not None
    assert list(names["inbox"].sources["stripe"].handlers) == ["paid"]
    names["inbox"].close()


def test_the_program_about_ones_own_transaction_publishes_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(blocks("publish-in-your-transaction")[0], "publish-in-your-transaction", "exec"), names)

    (published,) = names["conn"].execute("SELECT type, key FROM hooklane_event").fetchall()
    assert published == ("order.paid", "order:o_1")
    assert names["conn"].execute("SELECT state FROM orders").fetchall() == [("paid",)]


def test_a_scheme_of_ones_own_is_described_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(blocks("verify-a-signature")[0], "verify-a-signature", "exec"), names)

    assert names["inbox"].sources["crm"].grade == "signed"


FEW_EXAMPLES = """
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
settings.load_profile("busy")
"""


def test_the_tests_of_the_page_about_pytest_pass(tmp_path):
    conftest, tests, order = blocks("test-with-pytest")
    (tmp_path / "conftest.py").write_text(conftest + FEW_EXAMPLES)
    (tmp_path / "test_payments.py").write_text(tests)
    (tmp_path / "test_order.py").write_text(order)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "hooklane.testing.plugin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )

    assert "9 passed" in ended.stdout, ended.stdout


# --- a page for each provider ---

SECRET = "a secret that is long enough to be one"
TWILIO_URL = "https://app.example.com/webhooks/twilio"
INVOICE = {"object": {"id": "in_1", "amount_paid": 990}}
PROVIDERS = {
    "stripe": ("STRIPE_SECRET", "invoice.paid", INVOICE, "payments (invoice TEXT PRIMARY KEY, amount, event)"),
    "github": (
        "GITHUB_SECRET", "push", {"repository": {"full_name": "a/b"}, "after": "c0ffee"}, "builds (repo, commit_)",
    ),
    "shopify": ("SHOPIFY_SECRET", "orders/paid", {"id": 7, "financial_status": "paid"}, "orders (id PRIMARY KEY, s)"),
    "slack": ("SLACK_SIGNING_SECRET", "app_mention", {"channel": "C1", "text": "hi"}, "mentions (team, channel, text)"),
    "twilio": ("TWILIO_AUTH_TOKEN", "delivered", {}, "messages (sid TEXT PRIMARY KEY, status TEXT)"),
    "smartcar": (
        "SMARTCAR_TOKEN", "VEHICLE_STATE",
        {"signals": [{"code": "charge", "body": {"value": 80}, "meta": {"oemUpdatedAt": "2026-01-01T10:00:00Z"}}]},
        "signals (vehicle, code, value, at INTEGER, PRIMARY KEY (vehicle, code))",
    ),
}  # fmt: skip
"""By provider: the variable that its page reads, an event that its first handler takes, and the table it writes."""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_program_of_a_providers_page_applies_a_signed_event_once(provider, tmp_path, monkeypatch):
    variable, type_, data, table = PROVIDERS[provider]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, SECRET)
    with sqlite3.connect("app.db") as db:
        db.execute(f"CREATE TABLE {table}")
    names: dict[str, object] = {"__name__": "app"}
    exec(compile(blocks(f"receive-from-{provider}")[0], provider, "exec"), names)
    inbox = names["inbox"]
    url = TWILIO_URL if provider == "twilio" else None
    secrets = Credentials(SECRET, SECRET, {"url": url}) if url else [SECRET]
    event_id = f"SM1:{type_}" if provider == "twilio" else "evt_1"

    happened = wall_now()

    def deliver(attempt):
        request = build_request(
            find_profile(provider), secrets, type_, data,
            id=event_id, key="7", at=wall_now(), event_time=happened, attempt=attempt, url=url,
        )  # fmt: skip
        return inbox.receive(request, provider).headers

    outcomes = [dict(deliver(attempt))["hooklane-outcome"] for attempt in (1, 2)]
    while inbox.run_once():
        pass

    assert outcomes == ["stored", "duplicate"]
    assert len(db.execute(f"SELECT * FROM {table.partition(' ')[0]}").fetchall()) == 1
    db.close()
    inbox.close()


@pytest.mark.parametrize(
    "page", ["write-in-any-order", "thin-events", "retries-and-breakers", "rotate-a-secret", "personal-data"]
)
def test_the_program_of_a_page_is_a_receiver(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "app"}
    exec(compile(blocks(page)[0], page, "exec"), names)

    assert "hooklane" in names["inbox"].sources
    names["inbox"].close()


def test_the_helpers_of_the_page_about_order_end_in_the_same_state_however_events_come(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "app"}
    exec(compile(blocks("write-in-any-order")[0], "write-in-any-order", "exec"), names)
    inbox = names["inbox"]
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    order = {"id": "7", "total": 500, "customer": "ada"}
    events = [
        ("order.shipped", order), ("order.paid", order), ("order.created", order),
        ("profile.changed", {"at": "2026-01-02T00:00:00Z", "email": "new"}),
        ("profile.changed", {"at": "2026-01-01T00:00:00Z", "email": "old"}),
    ]  # fmt: skip
    happened = wall_now()
    for number, (type_, data) in enumerate(events):
        for attempt in (1, 2):
            request = build_request(
                find_profile("hooklane"), [secret], type_, data,
                id=f"evt_{number}", key="7", at=wall_now(), event_time=happened, attempt=attempt,
            )  # fmt: skip
            assert inbox.receive(request, "hooklane").status == 200
    while inbox.run_once():
        pass

    with sqlite3.connect("app.db") as db:
        assert db.execute("SELECT id, status FROM orders").fetchall() == [("7", "shipped")]
        assert db.execute("SELECT email FROM profiles").fetchall() == [("new",)]
        assert db.execute("SELECT account, amount FROM entries").fetchall() == [("ada", -500)]
        assert db.execute("SELECT total FROM receipts").fetchall() == [(500,)]
    db.close()
    inbox.close()


def test_the_step_from_an_outbox_of_ones_own_publishes_in_the_same_transaction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(blocks("move-from-your-own-outbox")[0], "move-from-your-own-outbox", "exec"), names)

    assert names["conn"].execute("SELECT type, key FROM hooklane_event").fetchall() == [("order.paid", "order:7")]
    names["conn"].close()
