"""The fixture `webhooks`, used as an application's tests use it: a shop on SQLite and on PostgreSQL, both modes."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest

from hooklane import Inbox
from hooklane.testing import Webhooks
from hooklane.testing.watch import POINTS

MODES = ["durable", "inline"]


class Shop:
    """An application: a table of payments, and an inbox on the same database."""

    def __init__(self, where: str, mode: Any, **options: Any) -> None:
        self.where = where
        self.mark = "?" if where.startswith("sqlite") else "%s"
        with self.connect() as conn:
            conn.execute("CREATE TABLE payments (invoice text)")
        self.inbox = Inbox(where, mode, **options)
        self.stripe = self.inbox.source("stripe", secrets=["whsec_the_only_one"])
        self.stripe.on("invoice.paid", name="paid")(self.paid)

    def connect(self) -> Any:
        if self.where.startswith("sqlite"):
            return sqlite3.connect(self.where.removeprefix("sqlite:///"))
        return psycopg.connect(self.where)

    def paid(self, event: Any, tx: Any) -> None:
        tx.execute(f"INSERT INTO payments VALUES ({self.mark})", (event.data["object"]["id"],))

    def payments(self) -> list[str]:
        with self.connect() as conn:
            return [row[0] for row in conn.execute("SELECT invoice FROM payments").fetchall()]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return f"sqlite:///{tmp_path / 'shop.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture(params=MODES)
def shop(request, where):
    shop = Shop(where, request.param)
    yield shop
    shop.inbox.close()


@pytest.fixture
def inbox(shop):
    """What the fixture `webhooks` finds by itself."""
    return shop.inbox


def paid(webhooks: Any, number: int = 1) -> Any:
    return webhooks.stripe("invoice.paid", data={"object": {"id": f"in_{number}"}})


def test_concurrent_copies_take_effect_once(webhooks, shop):
    event = paid(webhooks)

    webhooks.deliver(event, copies=5, concurrent=True)

    assert webhooks.applied(event) == 1
    assert shop.payments() == ["in_1"]
    assert sorted(set(webhooks.verdicts)) in (["duplicate", "stored"], ["applied", "duplicate"])
    assert set(webhooks.statuses) == {200}


def test_a_retry_is_the_same_event_with_another_delivery(webhooks, shop):
    event = paid(webhooks)
    again = webhooks.retry(event)

    webhooks.deliver(event, again)

    assert event.request.headers != again.request.headers or event.request.body == again.request.body
    assert webhooks.verdicts[1] == "duplicate"
    assert webhooks.applied(again) == webhooks.applied(event) == 1


def test_what_was_tampered_with_or_kept_too_long_is_refused(webhooks, shop):
    event = paid(webhooks)

    webhooks.deliver(webhooks.tampered(event), webhooks.expired(event, by=3600))

    assert webhooks.statuses == [401, 401]
    assert webhooks.applied(event) == 0
    assert shop.payments() == []


def test_another_content_under_the_same_id_is_a_conflict(webhooks, shop):
    event = paid(webhooks)

    webhooks.deliver(event)
    webhooks.deliver(webhooks.changed(event, data={"object": {"id": "in_2"}}))

    assert webhooks.verdicts == ["conflict"]
    assert shop.payments() == ["in_1"]


@pytest.mark.parametrize("at", POINTS)
def test_a_crash_at_any_point_and_a_redelivery_give_one_effect(webhooks, shop, at):
    event = paid(webhooks)

    webhooks.crash(event, at)

    assert shop.payments() == ["in_1"]
    assert webhooks.applied(event) == 1
    assert webhooks.runs(event) == (2 if at in ("after_handler", "before_commit") else 1)


@pytest.mark.parametrize("at", POINTS)
def test_after_a_crash_only_what_was_committed_is_there(webhooks, shop, at):
    event = paid(webhooks)

    webhooks.crash(event, at, redeliver=False)

    assert shop.payments() == (["in_1"] if at == "after_commit" else [])
    assert webhooks.applied(event) == (1 if at == "after_commit" else 0)


def test_the_inbox_is_left_as_it_was(shop):
    handler, emit, failpoint = shop.stripe.handlers["paid"], shop.inbox.emit, shop.inbox.runner.failpoint

    with Webhooks(shop.inbox) as webhooks:
        webhooks.deliver(paid(webhooks))
        assert shop.stripe.handlers["paid"] is not handler

    assert shop.stripe.handlers["paid"] is handler
    assert (shop.inbox.emit, shop.inbox.runner.failpoint) == (emit, failpoint)


def test_the_applications_own_worker_is_waited_for(webhooks, shop):
    shop.inbox.start_worker()

    webhooks.deliver(paid(webhooks), copies=3)

    assert shop.payments() == ["in_1"]
    shop.inbox.stop()


# Async


@pytest.mark.parametrize("at", POINTS)
async def test_async_handlers_are_delivered_to_and_crash_in_the_tests_own_loop(webhooks, shop, at):
    @shop.stripe.on("invoice.sent", name="sent")
    async def sent(event, tx):
        if shop.mark == "?":
            tx.execute("INSERT INTO payments VALUES (?)", ("sent",))
        else:
            await tx.execute("INSERT INTO payments VALUES ($1)", "sent")

    event, other = webhooks.stripe("invoice.sent"), webhooks.stripe("invoice.sent")

    await webhooks.acrash(event, at)
    await webhooks.adeliver(other, copies=4, concurrent=True)

    assert shop.payments() == ["sent", "sent"]
    assert (webhooks.applied(event), webhooks.applied(other)) == (1, 1)
    await shop.inbox.store.aclose()
