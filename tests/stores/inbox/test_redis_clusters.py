"""An inbox on a Redis cluster, and on a Redis that sentinels watch: real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from tests.promises.receiving.kit import SECRET, header, outcome, own_source, signed
from tests.stores.inbox.many_servers import cluster, sentinel
from tests.support.processes import free_port

from hooklane.errors import ConfigError, StoreUnavailable
from hooklane.receiver import Inbox
from hooklane.store.redis.store import RedisInbox, by_url
from hooklane.testing.conformance_inbox import InboxConformance


@pytest.fixture(scope="module")
def cluster_url() -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture
def empty_cluster_url(cluster_url: str) -> str:
    store = by_url(cluster_url)
    for node in store._address.client().get_primaries():
        store._address.client().execute_command("FLUSHALL", target_nodes=node)
    store.close()
    return f"{cluster_url}?buckets=8"


class TestRedisClusterInbox(InboxConformance):
    @pytest.fixture
    def store(self, empty_cluster_url: str) -> Iterator[RedisInbox]:
        store = by_url(empty_cluster_url)
        yield store
        store.close()


def test_rows_are_spread_over_the_nodes_and_each_is_applied_once(empty_cluster_url: str) -> None:
    inbox = Inbox(empty_cluster_url, "durable")
    applied: list[str] = []
    own_source(inbox, order="none").on("*")(lambda event, tx: applied.append(event.id))
    ids = [f"evt_{number}" for number in range(40)]
    for id in ids * 2:
        inbox.receive(signed(id))
    while inbox.run_once():
        pass

    assert sorted(ids) == sorted(applied)
    client = inbox.store._address.client()  # type: ignore[attr-defined]
    sizes = [redis.Redis(host=node.host, port=node.port).dbsize() for node in client.get_primaries()]
    assert min(sizes) > 0, "every node has its share"
    assert inbox.stats().counts[0].rows == 40
    inbox.close()


async def test_async_code_works_on_a_cluster_too(empty_cluster_url: str) -> None:
    inbox = Inbox(empty_cluster_url)
    applied: list[str] = []

    @own_source(inbox, order="none").on("*")
    async def effect(event: Any, tx: Any) -> None:
        applied.append(event.id)

    ids = [f"evt_{number}" for number in range(20)]
    replies = await asyncio.gather(*(inbox.areceive(signed(id)) for id in ids * 2))

    assert {reply.status for reply in replies} == {200}
    assert sorted(ids) == sorted(applied)
    await inbox.aclose()


async def test_a_cluster_that_is_away_is_told_as_any_other_store() -> None:
    inbox = Inbox(f"redis+cluster://127.0.0.1:{free_port()}")
    own_source(inbox, order="none").on("*")(lambda event, tx: None)

    for reply in (await asyncio.to_thread(inbox.receive, signed()), await inbox.areceive(signed())):
        assert (reply.status, header(reply, "retry-after")) == (503, "5")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        inbox.rows()
    inbox.store.close()


def test_orders_are_refused_on_a_cluster(empty_cluster_url: str) -> None:
    inbox = Inbox(empty_cluster_url)
    with pytest.raises(ConfigError, match='redis cluster cannot keep order="sequence", only "none"'):
        inbox.source("hooklane", [SECRET])
    inbox.close()


async def test_a_sentinel_is_asked_who_the_primary_is() -> None:
    with sentinel() as (url, primary):
        inbox = Inbox(url)
        own_source(inbox).on("*")(lambda event, tx: None)
        assert outcome(inbox.receive(signed("evt_1"))) == "applied"
        assert outcome(await inbox.areceive(signed("evt_1"))) == "duplicate"

        with redis.Redis(port=primary) as client:
            assert client.dbsize() > 0
        await inbox.aclose()
