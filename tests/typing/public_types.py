"""What a type checker says about code of a user: checked by mypy and by pyright in `make check`, never run."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from typing import Any, assert_type

import psycopg
import psycopg2
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from hooklane import (
    BreakerPolicy,
    Event,
    Inbox,
    Outbox,
    Publish,
    Published,
    Reply,
    Request,
    RetryPolicy,
    Source,
    insert_once,
    latest,
    ledger_entry,
    profile_of,
    refetch,
    sequence,
    signature_scheme,
    transition,
)
from hooklane.errors import InvalidEvent

outbox = Outbox("sqlite:///app.db")
inbox = Inbox("sqlite:///app.db", "inline", outbox=outbox)


def publishes_at_once(
    own: sqlite3.Connection, three: psycopg.Connection, alchemy: Connection, session: Session
) -> Published:
    psycopg2_connection = psycopg2.connect("")
    assert_type(outbox.publish("a", {}, tx=own), Published)
    assert_type(outbox.publish("a", {}, tx=three), Published)
    assert_type(outbox.publish("a", {}, tx=psycopg2_connection), Published)
    assert_type(outbox.publish("a", {}, tx=alchemy), Published)
    assert_type(outbox.publish("a", {}, tx=session), Published)
    assert_type(outbox.publish_many([Publish(type="a", data=1), {"type": "b", "data": 2}]), list[Published])
    return outbox.publish("a", {}, key="k")


async def publishes_when_awaited(
    three: psycopg.AsyncConnection, alchemy: AsyncConnection, session: AsyncSession
) -> Published:
    await assert_type(outbox.publish("a", {}, tx=alchemy), Coroutine[Any, Any, Published])
    assert_type(await outbox.publish("a", {}, tx=session), Published)
    assert_type(await outbox.publish_many([], tx=three), list[Published])
    assert_type(await insert_once(alchemy, "t", {"id": 1}, key=["id"]), bool)
    return await outbox.publish("a", {}, key="k", tx=three)


def reads_what_was_published(published: Published) -> str:
    assert_type(published.key, str | None)
    return published.event_id


stripe: Source = inbox.source(
    "stripe",
    secrets=["whsec_new", "whsec_old"],
    order="latest",
    retention_ms=7 * 86_400_000,
    retry=RetryPolicy(attempts_max=3),
    breaker=BreakerPolicy(),
)


@stripe.on("customer.*", order=latest(key="data.object.id", at="created"), retry=RetryPolicy(attempts_max=2))
def sync_handler(event: Event, tx: sqlite3.Connection) -> None:
    assert_type(event.seq, int | None)
    assert_type(latest.apply(tx, "t", key={"id": 1}, at=event.received_at, set={"n": 2}, future="skip"), bool)
    assert_type(insert_once(tx, "t", {"id": 1}, key=("id",)), bool)
    assert_type(transition(tx, "t", key={"id": 1}, to="b", order=["a", "b"]), bool)
    assert_type(ledger_entry(tx, "t", event=event, account="a", amount=5), bool)
    event.send("a", {}, key=event.key)


@stripe.on("charge.*", order=sequence(key="id"))
async def async_handler(event: Event, tx: psycopg.AsyncConnection) -> None:
    assert_type(await latest.apply(tx, "t", key={"id": 1}, at="2026-01-01T00:00:00Z", set={}), bool)
    assert_type(await ledger_entry(tx, "t", event=event, account="a", amount=5), bool)


@stripe.on("hint.*", order=refetch())
def handler_of_any_tx(event: Event, tx: Any) -> None:
    assert_type(event.type, str)


# The handler stays what it was: it can be called and tested by itself.
assert_type(sync_handler(Event.__new__(Event), sqlite3.connect("app.db")), None)

crm = inbox.source("crm", ["s3cret"], profile=profile_of("crm", scheme=signature_scheme("x-crm-signature"), id="id"))
assert_type(inbox.receive(Request("POST", "/webhooks/crm", (), b"{}")), Reply)
assert_type(inbox.replay(7), int)
assert_type(inbox.replay([7, 8], handler="sync"), int)
assert_type(inbox.skip(status="dead", note="known"), int)
assert_type([row.message.event_id for row in inbox.rows(source="stripe", limit=5)], list[str])

with inbox.claim("crm", "evt_1", payload={"n": 1}) as claim:
    assert_type(claim.fresh, bool)

try:
    outbox.publish("a", {})
except InvalidEvent as refused:
    assert_type(refused.code, str)
