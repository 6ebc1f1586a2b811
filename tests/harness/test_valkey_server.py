import pytest
import redis
from tests.support.valkey import Valkey, ValkeyServer, programs


def test_a_test_gets_an_empty_database_on_each_server_of_the_machine(each_redis_url: str) -> None:
    with redis.Redis.from_url(each_redis_url) as client:
        size = client.dbsize()
        client.set("left", "behind")
        info = client.info("server")

    assert size == 0
    assert tuple(int(part) for part in info["redis_version"].split(".")[:2]) >= (6, 2)


@pytest.mark.parametrize("round_", [1, 2])
def test_a_test_does_not_see_the_keys_of_another(redis_url: str, round_: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert not client.exists("left")
        client.set("left", round_)


def test_workers_never_share_a_database() -> None:
    address = Valkey(1)

    databases = {address.url(worker * 64 + turn) for worker in range(16) for turn in range(64)}

    assert len(databases) == 1024


async def test_a_server_of_ones_own_keeps_acknowledged_writes_when_it_is_killed(crash_redis: ValkeyServer) -> None:
    url = crash_redis.address.url()
    with redis.Redis.from_url(url) as client:
        client.set("claim", "mine")
    crash_redis.kill()
    with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    crash_redis.start()

    with redis.Redis.from_url(url) as client:
        assert client.get("claim") == b"mine"


def test_the_wheel_brings_a_server() -> None:
    assert programs()[0].name == "valkey-server"
