"""Which server is meant? A URL becomes clients: one for threads, and one for each event loop.

    redis://[user:password@]host:port/database      rediss://…  over TLS      unix:///path/to.sock
    redis+sentinel://host:port,host:port/service[/database]       asks sentinels who the primary is
    redis+cluster://host:port,host:port             a cluster (rediss+cluster:// over TLS)

Our own settings are in the query, all others go to redis-py: `prefix`, `buckets`, `payload=keep|drop`, `ttl_days`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from hooklane.errors import ConfigError
from hooklane.model.database_url import shown

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
BUCKETS, BUCKETS_OF_A_CLUSTER, BUCKETS_MAX = 1, 64, 16_384
TTL_DAYS = 90
"""30 days are the window in which duplicates are known; a downtime of up to 60 days does not cut into it."""
DAY_MS = 86_400_000
TIMEOUT_S = 5.0
# These parts of redis-py have no types.
_cluster: Any = redis.cluster
_sentinel: Any = redis.sentinel
_async_sentinel: Any = redis.asyncio.sentinel


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the inbox is kept."""

    prefix: str = "hl"
    buckets: int = BUCKETS
    drops_payload: bool = False
    ttl_ms: int = TTL_DAYS * DAY_MS
    tombstone_ms: int = 407 * DAY_MS


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL, and the clients that were made from it."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    settings: Settings
    url: str
    service: str = ""
    database: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    _sync: list[Any] = field(default_factory=list)
    _async: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Any]] = field(default_factory=WeakKeyDictionary)

    @property
    def is_cluster(self) -> bool:
        return self.scheme.endswith("+cluster")

    def client(self) -> Any:
        """The client for threads; made once, connections are made when they are needed."""
        if not self._sync:
            self._sync.append(self._make())
        return self._sync[0]

    async def async_client(self) -> Any:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        making = self._async.get(loop)
        if making is None:
            making = self._async[loop] = loop.create_future()
            try:
                client = self._make_async()
                if self.is_cluster:
                    # Learn the nodes before the first use: redis-py closes connections that are in use otherwise.
                    await client.initialize()
            except BaseException as error:
                del self._async[loop]
                told = error if isinstance(error, Exception) else ConnectionError("the event loop is ending")
                making.set_exception(told)
                making.exception()  # other tasks that wait hear it too, and none need be there
                raise
            making.set_result(client)
        return making.result() if making.done() else await making

    def close(self) -> None:
        while self._sync:
            self._sync.pop().close()

    async def aclose(self) -> None:
        making = self._async.pop(asyncio.get_running_loop(), None)
        if making is not None and making.done() and making.exception() is None:
            await making.result().aclose()

    def _make(self) -> Any:
        if self.scheme.endswith("+sentinel"):
            sentinel = _sentinel.Sentinel(list(self.hosts), **_plain(self.options))
            return sentinel.master_for(self.service, db=self.database, **self.options)
        if self.is_cluster:
            nodes = [_cluster.ClusterNode(*host) for host in self.hosts]
            return redis.cluster.RedisCluster(startup_nodes=nodes, **self.options)
        return redis.Redis.from_url(self.url, **_patience())

    def _make_async(self) -> Any:
        if self.scheme.endswith("+sentinel"):
            sentinel = _async_sentinel.Sentinel(list(self.hosts), **_plain(self.options))
            return sentinel.master_for(self.service, db=self.database, **self.options)
        if self.is_cluster:
            nodes = [redis.asyncio.cluster.ClusterNode(*host) for host in self.hosts]
            return redis.asyncio.cluster.RedisCluster(startup_nodes=nodes, **self.options)
        options = _patience() | {"retry": redis.asyncio.retry.Retry(NoBackoff(), 1)}
        return redis.asyncio.Redis.from_url(self.url, **options)


def address_of(url: str) -> Address:
    """*url* taken apart; all that is wrong with it is told at once."""
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in ("redis", "rediss")
        unreadable = "@" in parts.path or (is_plain and parts.port == 0)
    except ValueError:
        unreadable = True
    if unreadable:  # of a password with such letters every other message would show a part
        words = "in its password write / as %2F, @ as %40, : as %3A, # as %23; a port is a number from 1 to 65535"
        raise ConfigError([f"this URL of Redis cannot be read: {words}"])
    problems: list[str] = []
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_cluster = parts.scheme.endswith("+cluster")
    settings = _settings(query, is_cluster, problems)
    if parts.scheme not in SCHEMES:
        problems.append(
            f"an inbox on Redis is at {', '.join(f'{scheme}://' for scheme in SCHEMES)}; got {shown(url)[:40]!r}"
        )
    hosts = () if "+" not in parts.scheme else _hosts(parts, problems)
    service, database = "", 0
    path = [unquote(part) for part in parts.path.split("/") if part]
    if parts.scheme.endswith("+sentinel"):
        if not path:
            problems.append("redis+sentinel://host:port/service needs the name of the service that sentinels watch")
        else:
            service, *rest = path
            database = _database(rest, problems)
    elif is_cluster and path and path != ["0"]:
        problems.append(f"a cluster has no databases, got /{path[0]}")
    elif is_plain:
        _database(path, problems)
        if not parts.hostname:
            problems.append("redis://host:port/database needs a host")
    if problems:
        raise ConfigError(problems)
    options: dict[str, Any] = {}
    if "+" in parts.scheme:
        options = _patience() | _credentials(parts)
        if parts.scheme.startswith("rediss"):
            options["ssl"] = True
        options |= query
    plain = parts._replace(query=urlencode(query)).geturl()
    if "+" not in parts.scheme:
        try:
            redis.ConnectionPool.from_url(plain, **_patience()).make_connection()  # which does not connect yet
        except (TypeError, ValueError) as error:
            raise ConfigError([f"a setting of this URL is none of redis-py: {error}"]) from None
    return Address(parts.scheme, tuple(hosts), settings, plain, service, database, options)


def _database(path: list[str], problems: list[str]) -> int:
    """The number of the database; redis-py takes 0 for what is no number."""
    if not path:
        return 0
    if len(path) > 1 or not (path[0].isascii() and path[0].isdigit() and len(path[0]) <= 9):
        problems.append(f"a database of Redis is a number, got /{'/'.join(path)}")
        return 0
    return int(path[0])


def _settings(query: dict[str, str], is_cluster: bool, problems: list[str]) -> Settings:
    prefix = query.pop("prefix", "hl")
    if not prefix or any(letter in "{}" or not letter.isprintable() for letter in prefix):
        problems.append(f"prefix= is printable text without braces, got {prefix!r}")
    buckets = _number(query, "buckets", BUCKETS_OF_A_CLUSTER if is_cluster else BUCKETS, 1, BUCKETS_MAX, problems)
    ttl_days = _number(query, "ttl_days", TTL_DAYS, 7, 3650, problems)
    payload = query.pop("payload", "keep")
    if payload not in ("keep", "drop"):
        problems.append(f"payload= is keep (for replay) or drop (once it is handled), got {payload!r}")
    return Settings(prefix=prefix, buckets=buckets, drops_payload=payload == "drop", ttl_ms=ttl_days * DAY_MS)


def _number(query: dict[str, str], name: str, default: int, least: int, most: int, problems: list[str]) -> int:
    text = query.pop(name, str(default))
    if text.isdigit() and least <= int(text) <= most:
        return int(text)
    problems.append(f"{name}= is a number from {least} to {most}, got {text!r}")
    return default


def _hosts(parts: SplitResult, problems: list[str]) -> list[tuple[str, int]]:
    hosts: list[tuple[str, int]] = []
    default = 26379 if parts.scheme.endswith("+sentinel") else 6379
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            one = urlsplit(f"//{host}")
            if not one.hostname:
                raise ValueError(host)
            hosts.append((one.hostname, one.port or default))
        except ValueError:
            problems.append(f"{host!r} is not host:port")
    return hosts


def _credentials(parts: SplitResult) -> dict[str, Any]:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = {"username": unquote(user) or None, "password": unquote(password) or None}
    return {name: value for name, value in found.items() if value is not None}


def _patience() -> dict[str, Any]:
    # One retry: it meets a connection that the server had closed. A claim whose answer was lost is taken over later.
    return {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "retry": Retry(NoBackoff(), 1),
        "health_check_interval": 30,
    }


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """What is for the sentinels themselves: they have no user of the database."""
    return {name: value for name, value in options.items() if name in ("socket_timeout", "socket_connect_timeout")}
