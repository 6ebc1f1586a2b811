"""What is particular about an inbox on DynamoDB: one transaction with the handler's writes there, items, expiry."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tests.promises.receiving.kit import SECRET, header, outcome, own_source, signed, statuses
from tests.stores.inbox.worlds import DynamoWorld
from tests.support.processes import Child, free_port
from tests.support.tree import ROOT
from tests.support.tree import SOURCE as TREE

from hooklane.errors import ConfigError, LeaseLost, StoreRefused, StoreUnavailable, UsageError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Search
from hooklane.model.message import Status
from hooklane.receiver import Inbox
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.dynamodb.session import TRIES_MAX, Refused, judged
from hooklane.store.dynamodb.store import DynamoInbox, by_url
from hooklane.store.dynamodb.table import INDEX, table_of
from hooklane.telemetry import events
from hooklane.testing.conformance_inbox import HANDLER, WORK, owed, perform, row, together

DAY_MS = 86_400_000


@pytest.fixture
def dynamo_world(dynamodb_inbox_url: str) -> Iterator[DynamoWorld]:
    world = DynamoWorld(dynamodb_inbox_url)
    yield world
    world.close()


@pytest.fixture
def store(dynamodb_inbox_url: str) -> Iterator[DynamoInbox]:
    store = by_url(dynamodb_inbox_url)
    yield store
    store.close()


def run(store: DynamoInbox, flow: Any) -> Any:
    return Driver(store).run(transaction(flow))


def items(store: DynamoInbox) -> list[dict[str, Any]]:
    """Everything in the table but payloads."""
    pages = (
        store._table.client()
        .get_paginator("scan")
        .paginate(
            TableName=store.table,
            ConsistentRead=True,
            ProjectionExpression="pk, sk, #ttl",
            ExpressionAttributeNames={"#ttl": "ttl"},
        )
    )
    return [item for page in pages for item in page["Items"]]


def test_it_says_that_it_is_one_commit_with_dynamodb_and_with_nothing_else(dynamodb_inbox_url: str) -> None:
    inbox = Inbox(dynamodb_inbox_url)
    can = inbox.store.capabilities

    assert (inbox.mode, can.atomic, can.survives_failover, can.outbox) == ("durable", True, True, False)
    with pytest.raises(ConfigError, match=r"event\.send"):
        Inbox(dynamodb_inbox_url, outbox=object())
    inbox.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_hundred_deliveries_of_one_id_at_once_have_one_effect(dynamo_world: DynamoWorld, mode: Any) -> None:
    """V16."""
    world = dynamo_world
    inbox = world.inbox(mode, clock=wall_now, inline_wait_ms=30_000)
    own_source(inbox, order="none").on("*")(world.effect)
    replies = together(100, lambda _: inbox.receive(signed()))
    inbox.run_once()

    assert {reply.status for reply in replies} == {200}
    assert world.effects() == ["evt_1"]


def test_a_handlers_writes_are_one_transaction_with_its_completion(dynamo_world: DynamoWorld) -> None:
    world, client = dynamo_world, dynamo_world.client
    inbox = world.inbox("inline")
    client.put_item(TableName=world.table, Item={"id": {"S": "old"}})
    client.put_item(TableName=world.table, Item={"id": {"S": "account"}, "state": {"S": "open"}})

    @own_source(inbox).on("*")
    def book(event: Any, tx: Any) -> None:
        tx.put(world.table, {"id": f"payment-{event.id}", "cents": 700}, condition="attribute_not_exists(id)")
        tx.update(world.table, {"id": "balance"}, "ADD cents :c", values={"c": 700})
        tx.delete(world.table, {"id": "old"})
        tx.condition_check(world.table, {"id": "account"}, "#s = :open", names={"s": "state"}, values={"open": "open"})

    assert outcome(inbox.receive(signed())) == "applied"
    found = {item["id"]["S"]: item for item in client.scan(TableName=world.table)["Items"]}
    assert {"payment-evt_1", "balance", "account"} <= set(found)
    assert "old" not in found
    assert found["balance"]["cents"] == {"N": "700"}


def test_a_condition_of_the_handlers_own_that_fails_undoes_everything_and_is_told(dynamo_world: DynamoWorld) -> None:
    world = dynamo_world
    inbox = world.inbox("inline")
    world.client.put_item(TableName=world.table, Item={"id": {"S": "taken"}})

    @own_source(inbox).on("*")
    def book(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        tx.put(world.table, {"id": "taken"}, condition="attribute_not_exists(id)")

    assert inbox.receive(signed()).status == 503
    assert world.effects() == []
    (kept,) = inbox.rows(status=Status.FAILED)
    assert "put number 2" in str(kept.handlings[0].error)


def test_a_handler_may_not_write_more_than_a_transaction_takes_or_after_its_end(dynamo_world: DynamoWorld) -> None:
    world = dynamo_world
    inbox = world.inbox("inline")
    kept: list[Any] = []

    @own_source(inbox).on("*")
    def greedy(event: Any, tx: Any) -> None:
        kept.append(tx)
        for number in range(100):
            tx.put(world.table, {"id": str(number)})

    assert outcome(inbox.receive(signed())) == "rejected"
    assert "takes 100 writes" in str(inbox.rows()[0].handlings[0].error)
    with pytest.raises(UsageError, match="done"):
        kept[0].put(world.table, {"id": "late"})


def test_a_zombie_whose_claim_was_taken_over_writes_nothing_at_all(dynamo_world: DynamoWorld) -> None:
    world = dynamo_world
    store = by_url(world.url)
    run(store, store.insert([row("e1", owed())]))
    (claimed,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=0, limit=1))
    session = store.begin()
    session.tx.put(world.table, {"id": "zombie"})
    assert perform(session, store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
    run(store, store.claim(WORK, expired=True, now=wall_now(), lease_ms=60_000, limit=1))

    with pytest.raises(LeaseLost):
        session.commit()
    session.close()
    assert "Item" not in world.client.get_item(TableName=world.table, Key={"id": {"S": "zombie"}})
    store.close()


def test_a_payload_that_is_too_large_for_one_item_is_kept_in_chunks(store: DynamoInbox) -> None:
    body = bytes(range(256)) * 4096
    (id,) = run(store, store.insert([row("large", owed(), body=body)]))
    (claimed,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=1, limit=1))
    (kept,) = run(store, store.rows(Search(ids=(id,))))

    assert body == claimed.message.body == kept.message.body
    assert sum(item["sk"]["S"].startswith("b#") for item in items(store)) == 4
    run(store, store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
    assert all("ttl" in item for item in items(store) if item["pk"]["S"].startswith("r#"))
    assert run(store, store.reopen(claimed.id, HANDLER, now=wall_now()))
    assert not any("ttl" in item for item in items(store) if item["pk"]["S"].startswith("r#"))
    run(store, store.settle(claimed.id, HANDLER, Status.IGNORED, "enough", wall_now()))
    assert run(store, store.purge(before=Instant(50), source=None, limit=10)) == 1
    (bare,) = run(store, store.rows(Search(ids=(id,))))
    assert (bare.purged, bare.message.body) == (True, b"")
    assert run(store, store.prune(before=Instant(50), source=None, limit=10)) == 1
    assert not [item for item in items(store) if item["pk"]["S"].startswith("r#")]


def test_a_source_that_takes_more_than_a_transaction_holds_is_refused(dynamodb_inbox_url: str) -> None:
    inbox = Inbox(dynamodb_inbox_url)
    with pytest.raises(ConfigError, match="body_bytes_max"):
        inbox.source("hooklane", [SECRET], body_bytes_max=8_000_000)
    inbox.close()


@pytest.mark.parametrize(
    "program", ["tests.stores.inbox.forking_dynamodb", "tests.promises.receiving.forking_while_at_work"]
)
def test_a_fork_shares_no_connection_with_its_parent_and_waits_for_none_of_its_threads(
    program: str, dynamo_world: DynamoWorld, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", program, dynamo_world.url]
    env = {"PYTHONPATH": f"{TREE}{os.pathsep}{ROOT}"}
    with Child(command, log=tmp_path / "forking.log", cwd=ROOT, env=env) as child:
        assert child.wait(within_s=60) == 0, child.output()
    effects = dynamo_world.effects()
    assert len(effects) == len(set(effects))


def meanwhile(flow: Any, act: Callable[[], Any]) -> Any:
    """*flow*, with *act* right after its first step."""
    answer = yield next(flow)
    act()
    try:
        while True:
            answer = yield flow.send(answer)
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("handlers", [[HANDLER], [HANDLER, "mail"]], ids=["one_handler", "two"])
@pytest.mark.parametrize("verb", ["prune", "purge"])
def test_what_is_replayed_while_old_rows_are_looked_for_stays_whole(
    verb: str, handlers: list[str], store: DynamoInbox
) -> None:
    """The look at all of a large table takes minutes."""
    settled = [owed(handler=name, status=Status.COMPLETED) for name in handlers]
    (id,) = run(store, store.insert([row("e1", *settled)]))
    replayed: list[bool] = []
    remove = getattr(store, verb)(before=Instant(50), source=None, limit=10)
    gone = run(store, meanwhile(remove, lambda: replayed.append(run(store, store.reopen(id, HANDLER, now=wall_now())))))

    assert (gone, replayed) == (0, [True])
    (claimed,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=9))
    assert claimed.message.body == row("e1").message.body


def test_a_row_whose_time_is_over_does_not_count_though_dynamodb_has_not_removed_it(dynamo_world: DynamoWorld) -> None:
    world = dynamo_world
    inbox = world.inbox("inline")
    own_source(inbox, order="none").on("*")(world.effect)
    inbox.receive(signed())
    world.clock.pass_ms(89 * DAY_MS)
    assert outcome(inbox.receive(signed(at=world.clock.now))) == "duplicate"
    world.clock.pass_ms(2 * DAY_MS)

    assert outcome(inbox.receive(signed(at=world.clock.now))) == "applied"
    assert world.effects() == ["evt_1", "evt_1"]


def test_the_index_holds_what_is_owed_or_dead_and_nothing_else(store: DynamoInbox) -> None:
    run(store, store.insert([row("done", owed(status=Status.COMPLETED)), row("e1", owed()), row("e2", owed())]))
    run(store, store.insert([row("bare", status=Status.IGNORED), row("poison", status=Status.DEAD)]))
    (first, _) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=1, limit=2))
    run(store, store.complete(first.id, HANDLER, first.fence, Status.COMPLETED, wall_now()))

    indexed = store._table.client().scan(TableName=store.table, IndexName=INDEX)["Items"]
    assert sorted(item["ipk"]["S"].partition("#")[0] for item in indexed) == ["dead", "lease"]


def test_settled_rows_have_a_time_to_live_and_owed_ones_have_none(store: DynamoInbox) -> None:
    run(store, store.insert([row("e1", owed()), row("e2", owed(), owed(handler="mail"))]))
    taken = run(
        store,
        store.claim([*WORK, ("shop", "mail")], expired=False, now=wall_now(), lease_ms=60_000, limit=10),
    )

    def living() -> int:
        return sum("ttl" in item for item in items(store) if item["sk"]["S"] == "row")

    for number, claimed in enumerate(sorted(taken, key=lambda each: (each.message.event_id, each.handler))):
        assert living() == [0, 1, 1][number]
        run(store, store.complete(claimed.id, claimed.handler, claimed.fence, Status.COMPLETED, wall_now()))
    assert living() == 2


def test_what_time_it_was_on_a_host_is_not_kept_for_ever(store: DynamoInbox) -> None:
    """Each pod, task or function is a host with a name of its own."""
    run(store, store.keep_clock(wall_now()))

    (note,) = items(store)
    assert note["sk"]["S"].startswith("clock#")
    assert wall_now() + 29 * DAY_MS < int(note["ttl"]["N"]) * 1000 < wall_now() + 31 * DAY_MS


def test_a_write_that_boto_refuses_is_the_handlers_fault(dynamo_world: DynamoWorld) -> None:
    """Naive: all that is no answer of DynamoDB means that it is away, so the sender is told to come again, for ever."""
    inbox = dynamo_world.inbox("inline")
    own_source(inbox, order="none").on("*")(lambda event, tx: tx.put(None, {"id": "1"}))
    reply = inbox.receive(signed(at=dynamo_world.clock.now))

    (row,) = inbox.rows()
    assert (reply.status, row.overall) == (200, Status.DEAD)
    assert "DynamoDB does not take this" in str(row.handlings[0].error)


def test_a_table_is_created_once_on_demand_with_its_index_and_its_time_to_live(store: DynamoInbox) -> None:
    client = store._table.client()
    described = client.describe_table(TableName=store.table)["Table"]

    assert store.create_table() is False
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert [each["IndexName"] for each in described["GlobalSecondaryIndexes"]] == [INDEX]
    assert client.describe_time_to_live(TableName=store.table)["TimeToLiveDescription"]["AttributeName"] == "ttl"
    assert run(store, store.examine()) == []


def test_a_missing_table_is_named_with_the_command_that_creates_it(dynamodb_inbox_url: str) -> None:
    inbox = Inbox(dynamodb_inbox_url.replace("inbox", "missing", 1))
    with pytest.raises(StoreRefused, match="create-table"):
        inbox.rows()
    inbox.close()


def test_without_dynamodb_nothing_is_processed_and_the_sender_is_told_503(
    dynamodb_inbox_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklane.store.dynamodb.table._PATIENCE", {"retries": {"total_max_attempts": 1}})
    calls: list[str] = []
    inbox = Inbox(f"dynamodb://nowhere?endpoint=http://127.0.0.1:{free_port()}", "inline")
    own_source(inbox).on("*")(lambda event, tx: calls.append(event.id))
    reply = inbox.receive(signed())

    assert (reply.status, header(reply, "retry-after"), calls) == (503, "5", [])
    inbox.close()


def test_where_more_events_of_one_key_wait_than_an_item_holds_the_sender_is_told_to_come_again(
    dynamodb_inbox_url: str, store: DynamoInbox
) -> None:
    told: list[Any] = []
    inbox = Inbox(dynamodb_inbox_url, emit=told.append)
    own_source(inbox).on("*")(lambda event, tx: None)
    inbox.receive(signed("first", key="k", seq=1))
    client = store._table.client()
    (key,) = [item for item in items(store) if item["sk"]["S"] == "track"]
    track = client.get_item(TableName=store.table, Key={name: key[name] for name in ("pk", "sk")})["Item"]
    client.put_item(TableName=store.table, Item=track | {"as_large": {"S": "x" * (400 * 1024 - 1_000)}})

    replies = [inbox.receive(signed(f"more{n}", key="k", seq=2 + n)) for n in range(20)]

    assert [header(reply, "retry-after") for reply in replies if reply.status == 503][-1] == "5"
    assert {reply.status for reply in replies} == {200, 503}
    assert any("400 KB" in one.error for one in told if isinstance(one, events.Refused))
    inbox.close()


def client_error(code: str, **rest: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "slow down"}, **rest}, "PutItem")


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_throttling_is_retried_with_growing_jitter_and_then_told(code: str) -> None:
    waits = [judged(client_error(code), tried, "t", roll=lambda: 0.5) for tried in range(TRIES_MAX - 1)]

    assert waits == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5]
    with pytest.raises(StoreUnavailable, match="throttling"):
        judged(client_error(code), TRIES_MAX - 1, "t")


def test_a_conflict_of_transactions_is_retried_and_a_failed_condition_is_not() -> None:
    conflict = client_error("TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}])
    failed = client_error(
        "TransactionCanceledException",
        CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}],
    )

    assert judged(conflict, 0, "t", roll=lambda: 0.5) == 0.01
    assert judged(failed, 0, "t") == Refused({}, ("TransactionConflict", "ConditionalCheckFailed"))
    with pytest.raises(StoreUnavailable):
        judged(EndpointConnectionError(endpoint_url="http://x"), 0, "t")
    with pytest.raises(UsageError):
        judged(client_error("ValidationException"), 0, "t")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("dynamodb://", "table"),
        ("dynamodb://inbox/more", "table"),
        ("dynamodb://inbox?endpoint=ftp://x", "endpoint"),
        ("dynamodb://inbox?endpoint=http://[::1", "endpoint"),
        ("dynamodb://inbox?endpoint=http://", "endpoint"),
        ("dynamodb://[inbox", "cannot be read"),
        ("dynamodb://inbox?ttl_days=2", "ttl_days"),
        ("dynamodb://inbox?payload=maybe", "payload"),
        ("dynamodb://inbox?regoin=x", "regoin"),
    ],
)
def test_a_url_that_is_wrong_says_what_was_expected(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        table_of(url)


def test_a_url_names_table_region_and_endpoint() -> None:
    table = table_of("dynamodb://My_inbox.1?region=eu-central-1&endpoint=http://127.0.0.1:8000&payload=drop")
    assert (table.name, table.region, table.drops_payload) == ("My_inbox.1", "eu-central-1", True)


def test_payloads_can_be_dropped_as_soon_as_they_are_handled(dynamodb_inbox_url: str) -> None:
    inbox = Inbox(f"{dynamodb_inbox_url}&payload=drop", "inline")
    own_source(inbox).on("*")(lambda event, tx: None)
    inbox.receive(signed())

    (kept,) = inbox.rows()
    assert (kept.purged, kept.message.body, outcome(inbox.receive(signed()))) == (True, b"", "duplicate")
    inbox.close()


def test_a_copy_that_was_answered_keeps_the_row_when_its_writer_rolls_back(store: DynamoInbox) -> None:
    first = store.begin()
    perform(first, store.insert([row("e1", owed())]))
    assert run(store, store.insert([row("e1", owed())])) == [None]
    first.rollback()

    (kept,) = run(store, store.rows(Search()))
    assert kept.handlings[0].status is Status.PENDING


def test_of_a_row_for_several_handlers_each_is_claimed_and_settled_apart(dynamo_world: DynamoWorld) -> None:
    world = dynamo_world
    inbox = world.inbox("durable")
    source = own_source(inbox, order="none")
    for name in ("one", "two", "three"):
        source.on("*", name=name)(world.effect)
    inbox.receive(signed())
    while inbox.run_once():
        pass

    assert world.effects() == ["evt_1"] * 3
    assert statuses(inbox) == ["completed"]
