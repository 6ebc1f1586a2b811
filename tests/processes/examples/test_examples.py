"""The programs under examples/, run as their READMEs say, over real HTTP."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import http.server
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import ROOT, SOURCE

from hooklane.core.profiles import find_profile
from hooklane.core.signing import new_secret
from hooklane.model.clock import Instant, rfc3339, wall_now
from hooklane.model.message import Request
from hooklane.testing.build_request import Draft, build_batch, build_request
from hooklane.testing.sign_request import sign_request

EXAMPLES = ROOT / "examples"
SECRET = "a token that is long enough to be one"


def call(port, method, path, body=b"", headers=()):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(20))
    try:
        conn.request(method, path, body, dict(headers))
        answer = conn.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        conn.close()


@contextmanager
def program(folder, words, ready, tmp_path, **env):
    """A program of examples/, started as its README says and listening."""

    def spawn(port):
        return Child(
            [sys.executable, "-m", *(word.format(port=port) for word in words)],
            log=tmp_path / f"{folder}.log",
            env={"PYTHONPATH": SOURCE, **env},
            cwd=EXAMPLES / folder,
        )

    child, port = start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}{ready}"))
    with child:
        yield port


def test_every_example_has_a_readme_of_one_screen_that_says_how_to_run_it():
    folders = [folder for folder in EXAMPLES.iterdir() if folder.is_dir() and any(folder.glob("*.[pm]*"))]

    assert len(folders) >= 10
    for folder in folders:
        text = (folder / "README.md").read_text("utf-8")
        assert len(text.splitlines()) <= 60, folder
        assert re.search(r"^```(console|sh)$", text, re.MULTILINE), folder


# Smartcar


@pytest.fixture
def smartcar(tmp_path):
    words = ["uvicorn", "app:app", "--log-level", "warning", "--port", "{port}"]
    env = {"APP_DB": str(tmp_path / "app.db"), "SMARTCAR_TOKEN": SECRET}
    with program("smartcar", words, "/vehicles/v", tmp_path, **env) as port:
        yield port


def vehicle_state(number, minute, vehicle="v1", **signals):
    """Signals of one vehicle, each measured at its own minute; delivered now, whenever that is."""
    start = wall_now() - 3_600_000
    data = {
        "vehicle": {"id": vehicle},
        "signals": [
            {
                "code": code,
                "body": {"value": value},
                "meta": {"oemUpdatedAt": rfc3339(Instant(start + 60_000 * (minute - age)))},
            }
            for code, (value, age) in signals.items()
        ],
    }
    return Draft(type="VEHICLE_STATE", data=data, id=f"evt-{number}", key=vehicle)


def post_smartcar(port, draft, attempt=1):
    request = build_batch(find_profile("smartcar"), [SECRET], [draft], at=wall_now(), attempt=attempt)
    return call(port, "POST", "/webhooks/smartcar", request.body, request.headers)


def test_smartcars_signals_late_retried_and_out_of_order_end_in_the_newest_value_of_each(smartcar):
    events = [
        vehicle_state(number, number, charge=(50 + number, 0), odometer=(1000 + number, 3 * (number % 2)))
        for number in range(12)
    ]
    newest = {"charge": 61, "odometer": 1010}  # the odometer of event 11 was measured at minute 8
    arrivals = [(event, attempt) for event in events for attempt in (1, 2)]
    random.Random(7).shuffle(arrivals)

    answers = [post_smartcar(smartcar, event, attempt) for event, attempt in arrivals]
    post_smartcar(smartcar, vehicle_state("last", 30, vehicle="v2", charge=(1, 0)))
    until(lambda: call(smartcar, "GET", "/vehicles/v2")[1]["signals"], what="the last event")

    assert {status for status, _ in answers} == {200}
    assert sum(body["status"] == "already_processed" for _, body in answers) == 12
    _, state = call(smartcar, "GET", "/vehicles/v1")
    assert {code: body["value"] for code, body in state["signals"].items()} == newest


def test_smartcars_errors_are_open_until_they_are_resolved_and_a_late_copy_changes_nothing(smartcar):
    def vehicle_error(number, state):
        data = {"vehicle": {"id": "v1"}, "errors": [{"code": "VEHICLE_ASLEEP", "state": state}]}
        return Draft(type="VEHICLE_ERROR", data=data, id=f"err-{number}", key="v1")

    def errors():
        return call(smartcar, "GET", "/vehicles/v1")[1]["errors"]

    opened, resolved = vehicle_error(1, "ERROR"), vehicle_error(2, "RESOLVED")
    post_smartcar(smartcar, opened)
    until(lambda: errors() == {"VEHICLE_ASLEEP": "ERROR"}, what="an open error")
    post_smartcar(smartcar, resolved)
    until(lambda: errors() == {"VEHICLE_ASLEEP": "RESOLVED"}, what="its resolution")
    _, answer = post_smartcar(smartcar, opened, attempt=2)

    assert answer == {"status": "already_processed"}
    assert errors() == {"VEHICLE_ASLEEP": "RESOLVED"}


def test_smartcars_handshake_is_answered(smartcar):
    body = json.dumps({"eventType": "VERIFY", "eventId": "e", "data": {"challenge": "c1"}}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()

    status, answer = call(smartcar, "POST", "/webhooks/smartcar", body, [("SC-Signature", signature)])

    assert status == 200
    assert answer == {"challenge": hmac.new(SECRET.encode(), b"c1", hashlib.sha256).hexdigest()}


# Sports Stack


class OddsApi:
    """The provider's own API: the current price of each entity."""

    def __init__(self):
        self.prices = {}
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"price": api.prices[self.path.rpartition("/")[2]]}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def test_sports_stacks_states_that_come_back_are_not_lost_and_batches_are_split(tmp_path, empty_postgres_url):
    profile = find_profile("sportsstack")
    words = ["gunicorn", "app:app", "--threads", "4", "--bind", "127.0.0.1:{port}"]
    with OddsApi() as api, program(
        "sportsstack", words, "/odds", tmp_path,
        DATABASE_URL=empty_postgres_url, SPORTSSTACK_SECRET=SECRET, SPORTSSTACK_API=api.url,
    ) as port:  # fmt: skip

        def post(request):
            return call(port, "POST", "/webhooks/sportsstack", request.body, request.headers)[1]["status"]

        def change(price):
            api.prices["m1"] = price
            return build_request(profile, [SECRET], "odds", {}, id=f"hash-of-{price}", key="m1", at=wall_now())

        def shown(price, fetches):
            row = {"price": price, "fetches": fetches}
            until(lambda: call(port, "GET", "/odds")[1].get("m1") == row, what=f"{row}")

        assert post(change(1.90)) == "ok"
        shown(1.90, 1)
        assert post(change(1.90)) == "already_processed"
        assert post(change(1.95)) == "ok"
        shown(1.95, 2)
        assert post(change(1.90)) == "ok"
        shown(1.90, 3)

        api.prices |= {"m2": 2.0, "m3": 3.0}
        batch = [Draft(type="odds", data={}, id=f"hash-of-{key}", key=key) for key in ("m2", "m3")]
        assert post(build_batch(profile, [SECRET], batch, at=wall_now())) == "ok"
        until(lambda: {"m2", "m3"} <= set(call(port, "GET", "/odds")[1]), what="both entities of the batch")


# Stripe and GitHub


def post_copies(port, provider, copies, *events):
    """Each of *events* in so many copies, all at the same time; what was answered."""
    requests = [
        build_request(find_profile(provider), [SECRET], type_, data, id=id_, at=wall_now(), event_time=happened)
        for id_, type_, data, happened in events
    ] * copies
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = pool.map(
            lambda request: call(port, "POST", f"/webhooks/{provider}", request.body, request.headers), requests
        )
    return Counter((status, body["status"]) for status, body in answers)


def test_five_copies_of_a_stripe_event_at_once_are_one_and_an_older_one_does_not_win(tmp_path, empty_postgres_url):
    words = ["uvicorn", "app:app", "--log-level", "warning", "--port", "{port}"]
    url = empty_postgres_url.replace("postgresql://", "postgresql+asyncpg://")
    now = wall_now()

    def changed(number, status, age_ms):
        data = {"object": {"id": "sub_1", "object": "subscription", "status": status}}
        return f"evt_{number}", "customer.subscription.updated", data, Instant(now - age_ms)

    with program(
        "stripe_sqlalchemy", words, "/subscriptions", tmp_path, DATABASE_URL=url, STRIPE_SECRETS=SECRET
    ) as port:
        answers = post_copies(port, "stripe", 5, changed(2, "active", 0))
        until(lambda: call(port, "GET", "/subscriptions")[1] == {"sub_1": "active"}, what="the newest state")
        late = post_copies(port, "stripe", 1, changed(1, "trialing", 60_000))
        post_copies(port, "stripe", 1, ("evt_3", "customer.subscription.created", other_subscription(), now))
        until(lambda: "sub_2" in call(port, "GET", "/subscriptions")[1], what="what came last")

        assert answers == {(200, "ok"): 1, (200, "already_processed"): 4}
        assert late == {(200, "ok"): 1}
        assert call(port, "GET", "/subscriptions")[1] == {"sub_1": "active", "sub_2": "trialing"}


def other_subscription():
    return {"object": {"id": "sub_2", "object": "subscription", "status": "trialing"}}


def test_a_github_push_that_is_redelivered_is_one_build_in_django(tmp_path):
    env = {"APP_DB": str(tmp_path / "app.db"), "GITHUB_SECRET": SECRET}
    migrate = [sys.executable, "manage.py", "migrate", "--run-syncdb"]
    folder = EXAMPLES / "github_django"
    whole = {**os.environ, "PYTHONPATH": SOURCE, **env}
    subprocess.run(migrate, cwd=folder, env=whole, check=True, capture_output=True, timeout=scaled_s(60))
    words = ["gunicorn", "ci.wsgi:app", "--threads", "4", "--bind", "127.0.0.1:{port}"]
    push = ("d-1", "push", {"repository": {"full_name": "a/b"}, "after": "c0ffee"}, wall_now())

    with program("github_django", words, "/builds", tmp_path, **env) as port:
        answers = post_copies(port, "github", 3, push)
        until(lambda: call(port, "GET", "/builds")[1], what="a build")

        assert answers == {(200, "ok"): 1, (200, "already_processed"): 2}
        assert post_copies(port, "github", 1, push) == {(200, "already_processed"): 1}
        assert call(port, "GET", "/builds")[1] == [["a/b", "c0ffee"]]


# Slack and Shopify


def test_slacks_handshake_is_answered_and_a_mention_is_noted_once(tmp_path):
    words = ["uvicorn", "app:app", "--log-level", "warning", "--port", "{port}"]
    profile = find_profile("slack")
    env = {"APP_DB": str(tmp_path / "mentions.db"), "SLACK_SIGNING_SECRET": SECRET}
    with program("slack", words, "/mentions", tmp_path, **env) as port:
        asks = Request.of(
            "POST", "/", {"content-type": "application/json"}, b'{"type":"url_verification","challenge":"c1"}'
        )
        asks = sign_request(asks, profile, [SECRET], wall_now(), event_id="none")
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(20))
        conn.request("POST", "/webhooks/slack", asks.body, dict(asks.headers))
        answer = conn.getresponse()
        assert (answer.status, b"c1" in answer.read()) == (200, True)
        conn.close()

        happened = wall_now()
        said = {"channel": "C1", "text": "hello"}
        statuses = []
        for attempt in (1, 2):
            request = build_request(
                profile,
                [SECRET],
                "app_mention",
                said,
                id="Ev1",
                key="C1",
                at=wall_now(),
                event_time=happened,
                attempt=attempt,
            )
            statuses.append(call(port, "POST", "/webhooks/slack", request.body, request.headers)[1]["status"])
        assert statuses == ["ok", "already_processed"]
        until(lambda: len(call(port, "GET", "/mentions")[1]) == 1, what="the mention")
        assert call(port, "GET", "/mentions")[1][0][1:] == ["C1", "hello"]


def test_an_older_state_of_a_shopify_order_never_overwrites_a_newer_one(tmp_path):
    words = ["gunicorn", "app:app", "--threads", "4", "--bind", "127.0.0.1:{port}"]
    profile = find_profile("shopify")
    env = {"APP_DB": str(tmp_path / "orders.db"), "SHOPIFY_SECRET": SECRET}
    with program("shopify", words, "/orders", tmp_path, **env) as port:

        def post(number, status, minute, order=7):
            data = {"id": order, "financial_status": status}
            happened = Instant(wall_now() - 3_600_000 + 60_000 * minute)
            request = build_request(
                profile,
                [SECRET],
                "orders/updated",
                data,
                id=f"e{number}",
                key=order,
                at=wall_now(),
                event_time=happened,
            )
            return call(port, "POST", "/webhooks/shopify", request.body, request.headers)

        assert post(1, "paid", 2)[0] == 200
        until(
            lambda: call(port, "GET", "/orders")[1].get("7") == {"status": "paid", "events": 1}, what="the newer state"
        )
        assert post(2, "pending", 1)[0] == 200
        assert post(3, "refunded", 3)[0] == 200
        until(lambda: call(port, "GET", "/orders")[1]["7"]["status"] == "refunded", what="the newest state")
        assert call(port, "GET", "/orders")[1]["7"]["events"] == 2


# Our own sender


def tries(db, seq):
    """How often the warehouse has begun to apply an event."""
    conn = sqlite3.connect(db)
    try:
        return conn.execute("SELECT max(fence) FROM hooklane_inbox_handling WHERE seq = ?", (seq,)).fetchone()[0] or 0
    finally:
        conn.close()


def test_a_handler_that_fails_on_seq_3_never_lets_seq_4_of_that_key_apply_first(tmp_path, start_hooklane):
    """As long as it takes, which is longer than a policy of eight attempts and longer than a breaker is patient."""
    secret = new_secret(b"0123456789abcdef0123456789abcdef")
    shop, warehouse = tmp_path / "shop.db", tmp_path / "warehouse.db"

    def serve(db):
        child = start_hooklane(
            "serve", "--no-auth", "--port", "0", "--db", f"sqlite:///{db}", "--egress-allow", "127.0.0.0/8"
        )
        return int(child.wait_for_line(r"on http://127\.0\.0\.1:(\d+)")[1])

    def order(*arguments):
        command = [sys.executable, "shop.py", *arguments]
        env = {**os.environ, "PYTHONPATH": SOURCE, "SHOP_DB": str(shop)}
        subprocess.run(
            command, cwd=EXAMPLES / "own_sender", env=env, check=True, capture_output=True, timeout=scaled_s(30)
        )

    words = ["uvicorn", "warehouse:app", "--log-level", "warning", "--port", "{port}"]
    env = {"WAREHOUSE_DB": str(warehouse), "WAREHOUSE_SECRET": secret}
    with program("own_sender", words, "/applied", tmp_path, **env) as port:
        sender = serve(shop)
        url = f"http://127.0.0.1:{port}/webhooks/hooklane"
        created, _ = call(sender, "POST", "/api/v1/endpoints", json.dumps({"url": url, "secret": secret}).encode())
        assert created == 201

        def seqs(key):
            return [seq for seq, _ in call(port, "GET", "/applied")[1].get(key, [])]

        call(port, "POST", "/payments/down")
        order("1")
        until(lambda: seqs("order:1") == [1, 2], what="the first two")
        until(lambda: tries(warehouse, 3) > 20, within_s=60, what="many tries of the third")
        order("2", "2")
        until(lambda: seqs("order:2") == [1, 2], what="another order, which flows on")
        assert seqs("order:1") == [1, 2], "3 is being retried; 4 and 5 have arrived and wait"
        call(port, "POST", "/payments/up")
        until(lambda: seqs("order:1") == [1, 2, 3, 4, 5], what="all in order")

        # What its handlers sent is in the warehouse's outbox, once for each event that was applied.
        second = serve(warehouse)
        listed = call(second, "GET", "/api/v1/events?type=stock.changed")[1]["items"]
        assert sorted(event["key"] for event in listed) == ["order:1"] * 5 + ["order:2"] * 2
