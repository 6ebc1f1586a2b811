"""What is particular about an inbox on Redis: leases instead of transactions, and honest limits."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.promises.receiving.kit import SECRET, header, outcome, own_source, signed, statuses
from tests.stores.inbox.worlds import RedisWorld
from tests.support.fork_server import fork
from tests.support.pace import scaled_ms, scaled_s
from tests.support.processes import Child, until
from tests.support.proxy import Clear, FaultProxy, LoseReply
from tests.support.tree import ROOT
from tests.support.tree import SOURCE as TREE
from tests.support.valkey import ValkeyServer, valkey_server

from hooklane.errors import ConfigError, LeaseLost, Reject, StoreRefused, UsageError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Search
from hooklane.model.message import Request, Status
from hooklane.receiver import Event, Inbox, latest, sequence
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.redis import ordering
from hooklane.store.redis.address import address_of
from hooklane.store.redis.scripts import BUFFERED, script
from hooklane.store.redis.store import RedisInbox, by_url
from hooklane.telemetry.events import FenceRejected
from hooklane.testing.conformance_inbox import HANDLER, SOURCE, WORK, owed, perform, row, together

EVENTS, COPIES = 20, 4
DAY_MS = 86_400_000


@pytest.fixture
def redis_world(each_redis_url: str) -> Iterator[RedisWorld]:
    world = RedisWorld(each_redis_url)
    yield world
    world.close()


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisInbox]:
    store = by_url(redis_url)
    yield store
    store.close()


def run(store: RedisInbox, flow: Any) -> Any:
    return Driver(store).run(transaction(flow))


def receiver(world: RedisWorld, log: Path, mode: str, point: str, *options: Any, lease_ms: int = 1) -> Child:
    words = [str(option) for option in options or (1, 1)]
    command = [sys.executable, "-m", "tests.promises.receiving.crashing", world.url, mode, point, *words]
    env = {"PYTHONPATH": f"{TREE}{os.pathsep}{ROOT}", "LEASE_MS": str(lease_ms)}
    return Child(command, log=log, cwd=ROOT, env=env, born=fork)


def test_it_is_inline_unless_told_and_says_what_it_cannot_do(redis_url: str) -> None:
    inbox = Inbox(redis_url)
    can = inbox.store.capabilities

    assert (inbox.mode, can.atomic, can.survives_failover) == ("inline", False, False)
    assert "may lose at failover" in can.caveat
    assert Inbox(redis_url, "durable").mode == "durable"
    with pytest.raises(ConfigError, match=r"event\.send"):
        Inbox(redis_url, outbox=object())


def test_a_handler_that_expects_a_transaction_is_told_that_there_is_none(redis_world: RedisWorld) -> None:
    world = redis_world
    inbox = world.inbox("inline")

    @own_source(inbox).on("*")
    def naive(event: Any, tx: Any) -> None:
        tx.execute("INSERT …")

    assert outcome(inbox.receive(signed())) == "rejected"
    (kept,) = inbox.rows(status="dead")
    assert "cannot join your database's transaction" in str(kept.handlings[0].error)


def test_a_shadow_replay_is_refused_where_nothing_can_be_rolled_back(redis_world: RedisWorld) -> None:
    world = redis_world
    inbox = world.inbox("inline")
    own_source(inbox).on("*")(world.effect)
    inbox.receive(signed())

    with pytest.raises(UsageError, match="rolled back"):
        inbox.replay(source="hooklane", shadow=True)


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_hundred_deliveries_of_one_id_at_once_have_one_effect(redis_world: RedisWorld, mode: Any) -> None:
    """V16."""
    world = redis_world
    inbox = world.inbox(mode, clock=wall_now, inline_wait_ms=10_000)
    own_source(inbox, order="none").on("*")(world.effect)
    replies = together(100, lambda _: inbox.receive(signed()))
    inbox.run_once()

    assert {reply.status for reply in replies} == {200}
    assert world.effects() == ["evt_1"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_twenty_events_in_four_processes_have_twenty_effects(
    redis_world: RedisWorld, mode: str, tmp_path: Path
) -> None:
    world = redis_world
    go = tmp_path / "go"
    children = [
        receiver(world, tmp_path / f"{n}.log", mode, "none", 1, EVENTS, go, lease_ms=60_000) for n in range(COPIES)
    ]
    try:
        for child in children:
            child.wait_for_line("ready")
        go.touch()
        for child in children:
            assert child.wait(within_s=60) == 0, str(child)
    finally:
        for child in children:
            child.close()

    assert sorted(f"evt_{number}" for number in range(EVENTS)) == sorted(world.effects())


# Before the first commit of all, in durable mode that of the event, no handler has run. Inline the handler has, and
# what it did is not undone.
@pytest.mark.parametrize(
    ("mode", "point", "effects"),
    [
        ("durable", "after_claim", 1),
        ("durable", "after_handler", 2),
        ("durable", "before_commit", 1),
        ("durable", "after_commit", 1),
        ("inline", "after_claim", 1),
        ("inline", "after_handler", 2),
        ("inline", "before_commit", 2),
        ("inline", "after_commit", 1),
    ],
)
def test_killed_at_any_point_nothing_is_lost_and_what_was_not_committed_runs_again(
    redis_world: RedisWorld, mode: str, point: str, effects: int, tmp_path: Path
) -> None:
    world = redis_world
    with receiver(world, tmp_path / "log", mode, point) as child:
        assert child.wait() == -9, str(child)

    inbox = world.inbox(mode, clock=wall_now)
    own_source(inbox, order="none").on("*", name="effect")(world.effect)
    until(lambda: inbox.receive(signed("evt_0")).status == 200, what="a redelivery that is taken")
    until(lambda: inbox.run_once() == 0, what="nothing left to do")
    assert (world.effects(), statuses(inbox)) == (["evt_0"] * effects, ["completed"])


def test_a_zombie_is_fenced_though_its_effect_is_out_in_the_world(redis_world: RedisWorld) -> None:
    world = redis_world
    second = world.inbox("durable", lease_ms=60_000)
    own_source(second).on("*", name="handler")(world.effect)

    def stall(point: str) -> None:
        if point == "after_handler":
            world.clock.pass_ms(1)
            second.run_once()

    first = world.inbox("durable", lease_ms=0, failpoint=stall)
    own_source(first).on("*", name="handler")(world.effect)
    first.receive(signed())
    first.run_once()

    assert len(world.told_of(FenceRejected)) == 1
    (kept,) = first.rows()
    assert (kept.handlings[0].status, kept.handlings[0].fence) == (Status.COMPLETED, 2)


def test_a_copy_that_waits_is_told_how_long_the_lease_lasts(redis_world: RedisWorld) -> None:
    world = redis_world
    inbox = world.inbox("inline", clock=wall_now, inline_wait_ms=50, lease_ms=30_000)
    copies: list[Any] = []

    @own_source(inbox).on("*")
    def slow(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        if not copies:
            copies.append(None)
            copies[0] = together(1, lambda _: inbox.receive(signed()))[0]

    first = inbox.receive(signed())

    assert (copies[0].status, outcome(copies[0])) == (503, "busy")
    assert 1 < int(str(header(copies[0], "retry-after"))) <= 30
    assert (outcome(first), outcome(inbox.receive(signed())), world.effects()) == ("applied", "duplicate", ["evt_1"])


def test_a_row_that_another_copy_relies_on_is_not_taken_back(store: RedisInbox) -> None:
    """The first session rolls back after a copy was answered: the copy was told that the event is ours."""
    first = store.begin()
    (id,) = perform(first, store.insert([row("e1", owed())]))
    assert run(store, store.insert([row("e1", owed())])) == [None]
    first.rollback()

    (kept,) = run(store, store.rows(Search()))
    assert (kept.id, kept.handlings[0].status) == (id, Status.PENDING)


def test_a_commit_whose_claim_was_taken_over_writes_nothing(store: RedisInbox) -> None:
    run(store, store.insert([row("e1", owed())]))
    (claimed,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=0, limit=1))

    def stalled() -> Any:
        assert (yield from store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
        other = by_url(store._address.url)
        run(other, other.claim(WORK, expired=True, now=wall_now(), lease_ms=60_000, limit=1))
        other.close()

    with pytest.raises(LeaseLost):
        run(store, stalled())
    (kept,) = run(store, store.rows(Search()))
    assert (kept.handlings[0].status, kept.handlings[0].fence) == (Status.IN_PROGRESS, 2)


def test_a_key_with_very_many_held_events_does_not_hide_the_gap_of_another(
    redis_world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "HELD_PAGE", 2)
    inbox = redis_world.inbox("durable")
    source = inbox.source("acme", unsafe=True, profile="standard_webhooks")
    source.on(order=sequence(key="k", seq="n", gap_timeout=0.001, on_gap="skip"), name="handler")(_only_b)

    def post(key: str, seq: int) -> None:
        body = json.dumps({"type": "order.placed", "k": key, "n": seq}).encode()
        inbox.receive(Request.of("POST", "http://x/acme", [("webhook-id", f"{key}{seq}")], body))

    for seq in range(1, 8):
        post("a", seq)
    post("b", 1)
    post("b", 3)

    inbox.run_once()
    redis_world.clock.pass_ms(DAY_MS)
    inbox.run_once()
    inbox.run_once()

    [row] = inbox.rows(event_id="b3")
    assert row.handlings[0].status is Status.COMPLETED


def _only_b(event: Event, tx: Any) -> None:
    if event.payload["k"] == "a":
        raise Reject("a is dead, and holds what follows it")


def test_settled_rows_expire_and_owed_ones_never(store: RedisInbox) -> None:
    ids = run(store, store.insert([row("done", owed(status=Status.COMPLETED)), row("owed", owed())]))
    client = store._address.client()
    ttls = [client.pttl(f"hl:{{0}}:row:{str(id)[17:]}") for id in ids]

    assert 89 * DAY_MS < ttls[0] <= 90 * DAY_MS
    assert ttls[1] == -1
    (claimed,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=1, limit=1))
    run(store, store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
    assert client.pttl(f"hl:{{0}}:row:{str(ids[1])[17:]}") > 0
    run(store, store.reopen(claimed.id, HANDLER, now=wall_now()))
    assert client.pttl(f"hl:{{0}}:msg:{str(ids[1])[17:]}") == -1


def test_what_expired_by_itself_leaves_the_counts_when_it_is_swept(store: RedisInbox) -> None:
    (id,) = run(store, store.insert([row("e1", owed(status=Status.COMPLETED))]))
    store._address.client().delete(f"hl:{{0}}:row:{str(id)[17:]}", f"hl:{{0}}:msg:{str(id)[17:]}")
    assert sum(each.rows for each in run(store, store.counts())) == 1
    run(store, store.prune(before=Instant(50), source=None, limit=10))

    assert run(store, store.counts()) == []
    assert store._address.client().xlen("hl:{0}:rows") == 0


def test_rows_that_came_together_are_pruned_retracted_and_paged_one_by_one(store: RedisInbox) -> None:
    """They share an entry of the stream; the entry goes with the last of them."""
    client = store._address.client()
    rows = [row(f"e{number}", owed(due_at=Instant(number))) for number in range(4)]
    same = [row(f"s{number}", owed(status=Status.COMPLETED)) for number in range(4)]
    run(store, store.insert(rows))
    ids = run(store, store.insert(same))
    rolled_back = store.begin()
    perform(rolled_back, store.insert([row(f"r{number}", owed()) for number in range(3)]))
    rolled_back.rollback()

    found = [each.message.event_id for each in run(store, store.rows(Search(after=ids[1])))]
    assert found == ["s2", "s3"], "a page may begin in the middle of an entry"
    assert [run(store, store.prune(before=Instant(50), source=None, limit=3)) for _ in range(3)] == [3, 1, 0]
    assert {(each.status, each.rows) for each in run(store, store.counts())} == {(Status.PENDING, 4)}
    taken = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=3))
    for each in taken:
        run(store, store.complete(each.id, HANDLER, each.fence, Status.COMPLETED, wall_now()))
    assert run(store, store.prune(before=Instant(50), source=None, limit=9)) == 3
    assert [each.message.event_id for each in run(store, store.rows(Search()))] == ["e3"]
    (last,) = run(store, store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=3))
    run(store, store.complete(last.id, HANDLER, last.fence, Status.COMPLETED, wall_now()))
    run(store, store.prune(before=Instant(50), source=None, limit=9))
    assert (client.xlen("hl:{0}:rows"), client.exists("hl:{0}:left", "hl:{0}:count")) == (0, 0)


def test_payloads_can_be_dropped_as_soon_as_they_are_handled(redis_url: str) -> None:
    world = RedisWorld(f"{redis_url}?payload=drop")
    inbox = world.inbox("inline")
    own_source(inbox).on("*")(lambda event, tx: None)
    inbox.receive(signed())

    (kept,) = inbox.rows()
    assert (kept.purged, kept.message.body) == (True, b"")
    assert outcome(inbox.receive(signed())) == "duplicate"
    world.close()


def test_a_dead_row_that_is_given_to_two_handlers_keeps_its_payload_until_both_are_done(redis_url: str) -> None:
    world = RedisWorld(f"{redis_url}?payload=drop")
    inbox = world.inbox("durable")
    accounts: dict[str, str] = {}
    bodies: list[bytes] = []
    source = own_source(inbox, account=lambda message: accounts[message.event_id], order="none")
    for name in ("one", "two"):
        source.on("*", name=name)(lambda event, tx: bodies.append(event.raw))
    request = signed()
    inbox.receive(request)

    accounts["evt_1"] = "mended"
    assert inbox.replay(status="dead") == 2
    assert [inbox.run_once(1), inbox.run_once(1)] == [1, 1]
    assert bodies == [request.body, request.body]
    world.close()


def test_a_source_that_must_be_kept_longer_than_rows_live_is_refused(redis_url: str) -> None:
    inbox = Inbox(f"{redis_url}?ttl_days=14")
    with pytest.raises(ConfigError, match=r"ttl_days"):
        inbox.source("hooklane", [SECRET])
    inbox.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://h:1", "service"),
        ("redis+cluster://h:1/3", "no databases"),
        ("redis://h/0?buckets=0", "buckets"),
        ("redis://h/0?payload=maybe", "payload"),
        ("redis://h/0?ttl_days=3", "ttl_days"),
        ("redis://h/0?prefix={a}", "prefix"),
        ("redis://[::1", "cannot be read"),
        ("redis://h:99999/0", "cannot be read"),
        ("redis://h:0/0", "cannot be read"),
        ("redis://u:pa#ss@h/0", "cannot be read"),
        ("redis://", "host"),
        ("redis://h/orders", "a database of Redis is a number"),
        ("redis://h/0/1", "a database of Redis is a number"),
        ("redis+sentinel://h:1/main/orders", "a database of Redis is a number"),
        ("redis://h/0?colour=red", "colour"),
        ("redis://h/0?socket_timeout=soon", "socket_timeout"),
    ],
)
def test_a_url_that_is_wrong_says_what_was_expected(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        address_of(url)


def test_urls_name_sentinels_clusters_and_credentials() -> None:
    sentinel = address_of("redis+sentinel://:pass@h1:1,h2/main/2?prefix=shop")
    cluster = address_of("rediss+cluster://u:p@h1:1,h2:2?buckets=8")

    assert (sentinel.hosts, sentinel.service, sentinel.database) == ((("h1", 1), ("h2", 26379)), "main", 2)
    assert (sentinel.options["password"], sentinel.settings.prefix) == ("pass", "shop")
    assert (cluster.hosts, cluster.settings.buckets, cluster.options["ssl"]) == ((("h1", 1), ("h2", 2)), 8, True)


def test_another_number_of_buckets_is_refused_because_it_would_not_find_its_rows(redis_url: str) -> None:
    first = by_url(redis_url)
    first.begin().close()
    with pytest.raises(StoreRefused, match="buckets"):
        by_url(f"{redis_url}?buckets=4").begin()
    first.close()


def test_orders_that_need_one_slot_are_refused_with_many_buckets(redis_url: str) -> None:
    inbox = Inbox(f"{redis_url}?buckets=4")
    with pytest.raises(ConfigError, match='cannot keep order="sequence"'):
        inbox.source("hooklane", [SECRET])
    source = inbox.source("shop", [SECRET], profile="standard_webhooks", order="none")
    with pytest.raises(ConfigError, match='cannot keep order="latest"'):
        source.on("*", order=latest(key="id", at="at"))(lambda event, tx: None)
    with pytest.raises(ConfigError, match="by state"):
        inbox.source("feed", unsafe=True, profile="standard_webhooks", order="none", dedup="state_token")
    inbox.close()


def test_scripts_use_no_command_that_came_after_redis_6_2(store: RedisInbox) -> None:
    names = [*{path.stem for path in (ROOT / "src/hooklane/store/redis/scripts").glob("*.lua")} - set(BUFFERED)]
    texts = [script(name).text for name in names if name not in ("bucket", "arguments", "erase")]
    used = {word.lower() for text in texts for word in re.findall(r"call\('(\w+)'", text)}
    used |= {"evalsha", "eval", "get", "hmget", "hset", "zrange", "zrangebyscore", "xrange", "info"}
    docs = store._address.client().execute_command("COMMAND DOCS", *used)
    since = {_text(name): _since(told) for name, told in _pairs(docs)}

    assert used == set(since)
    assert {name for name, version in since.items() if version > (6, 2)} == set()


def _pairs(answer: Any) -> list[tuple[Any, Any]]:
    return list(answer.items()) if isinstance(answer, dict) else list(zip(answer[::2], answer[1::2], strict=True))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _since(told: Any) -> tuple[int, ...]:
    fields = {_text(name): value for name, value in _pairs(told)}
    return tuple(int(part) for part in _text(fields["since"]).split(".")[:2])


def test_the_doctor_warns_about_eviction_and_missing_persistence() -> None:
    with valkey_server() as server:
        url = server.address.url()
        client = redis.Redis.from_url(url)
        client.config_set("maxmemory-policy", "allkeys-lru")
        inbox = Inbox(url)
        before = " ".join(inbox.examine())
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("appendonly", "yes")

        assert ("allkeys-lru" in before, "appendonly" in before) == (True, True)
        assert inbox.examine() == []
        inbox.close()
        client.close()


def test_without_redis_nothing_is_processed_and_the_sender_is_told_503(crash_redis: ValkeyServer) -> None:
    calls: list[str] = []
    inboxes = [Inbox(crash_redis.address.url(), mode) for mode in ("inline", "durable")]
    for inbox in inboxes:
        own_source(inbox, order="none").on("*")(lambda event, tx: calls.append(event.id))
        inbox.receive(signed("evt_0"))
    crash_redis.kill()
    for inbox in inboxes:
        reply = inbox.receive(signed("evt_1"))
        assert (reply.status, header(reply, "retry-after")) == (503, "5")
    assert calls == ["evt_0"]
    crash_redis.start()

    assert [outcome(inbox.receive(signed("evt_0"))) for inbox in inboxes] == ["duplicate", "duplicate"]
    assert [outcome(inbox.receive(signed("evt_1"))) for inbox in inboxes] == ["applied", "duplicate"]
    for inbox in inboxes:
        inbox.close()


def test_a_lost_answer_is_asked_for_again_and_nothing_is_applied_twice(redis_url: str) -> None:
    where = redis.Redis.from_url(redis_url).connection_pool.connection_kwargs
    with FaultProxy(where["port"]) as proxy:
        world = RedisWorld(redis_url)
        inbox = Inbox(f"redis://127.0.0.1:{proxy.port}/{where['db']}", "durable")
        own_source(inbox, order="none").on("*")(world.effect)
        assert inbox.receive(signed("evt_0")).status == 200
        proxy.fault = LoseReply()
        assert inbox.receive(signed("evt_1")).status == 503
        proxy.fault = Clear()
        replies = [inbox.receive(signed("evt_1")) for _ in range(2)]
        inbox.run_once()

        assert [outcome(reply) for reply in replies] == ["duplicate", "duplicate"], "it was stored, only not answered"
        assert sorted(world.effects()) == ["evt_0", "evt_1"]
        inbox.close()
        world.close()


def test_claims_that_come_together_share_a_call_and_each_gets_its_own_answer(redis_url: str) -> None:
    async def claim_all() -> list[Any]:
        inbox = Inbox(redis_url)
        applied: list[str] = []

        @own_source(inbox, order="none").on("*")
        async def effect(event: Any, tx: Any) -> None:
            applied.append(event.id)

        ids = [f"evt_{number % 40}" for number in range(80)]
        replies = await asyncio.gather(*(inbox.areceive(signed(id)) for id in ids))
        await inbox.aclose()
        return [sorted(applied), {reply.status for reply in replies}]

    applied, answers = asyncio.run(claim_all())

    assert applied == sorted(f"evt_{number}" for number in range(40))
    assert answers == {200}


def test_a_bad_row_does_not_fail_those_that_share_its_call(redis_url: str) -> None:
    async def insert_some() -> list[Any]:
        store = by_url(redis_url)
        session = await store.abegin()
        inserts = store._inserts[await store._address.async_client()]
        good = ("n" * 22, b"\0\0\0\0", (0, 1000, 1, SOURCE, "ignored"))
        bad = ("m" * 22, b"\0\0\0\0", ("x", 1000, 1, SOURCE, "ignored"))
        answers = await asyncio.gather(
            inserts.insert("hl:{0}", [good]), inserts.insert("hl:{0}", [bad]), return_exceptions=True
        )
        await session.close()
        await store.aclose()
        return list(answers)

    fine, refused = asyncio.run(insert_some())

    assert fine == [b"0000000000001000"]
    assert isinstance(refused, Exception)


def test_a_long_handler_keeps_its_claim_because_it_is_renewed(redis_world: RedisWorld) -> None:
    world = redis_world
    lease_ms = scaled_ms(300)  # a machine that is busy renews late
    inbox, other = (world.inbox("durable", clock=wall_now, lease_ms=lease_ms) for _ in range(2))
    begun, go_on = threading.Event(), threading.Event()

    def slow(event: Any, tx: Any) -> None:
        begun.set()
        go_on.wait(scaled_s(10))
        world.effect(event, tx)

    own_source(inbox).on("*", name="handler")(slow)
    own_source(other).on("*", name="handler")(world.effect)
    inbox.receive(signed())
    thread = threading.Thread(target=inbox.run_once)
    thread.start()
    begun.wait(scaled_s(10))
    deadline = time.monotonic() + 3 * lease_ms / 1000
    while time.monotonic() < deadline:
        assert other.run_once() == 0
    go_on.set()
    thread.join()

    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])
