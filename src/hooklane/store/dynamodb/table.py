"""Which table is meant? A URL becomes clients, and a table can be created.

    dynamodb://table?region=eu-central-1&endpoint=http://127.0.0.1:8000

Credentials are found as boto3 finds them. Our own settings: `ttl_days`, `payload=keep|drop`.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakKeyDictionary

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import create_loader

from hooklane.batching.locks import open_in_forks
from hooklane.errors import ConfigError, MissingExtra
from hooklane.model.database_url import shown

TTL_DAYS = 90
DAY_MS = 86_400_000
INDEX = "due"
CONNECTIONS = 32

# Throttling is retried by the SDK with jitter, and by our session for what the SDK does not count as such.
_PATIENCE: dict[str, Any] = {
    "retries": {"mode": "standard", "total_max_attempts": 4},
    "connect_timeout": 3,
    "read_timeout": 10,
    "max_pool_connections": CONNECTIONS,
}
# It keeps what it read of the SDK's large description of DynamoDB, so that only the first client takes long to make.
_LOADER = create_loader()


@dataclass(frozen=True, slots=True)
class Table:
    """A parsed URL, and the clients that were made from it."""

    name: str
    region: str | None = None
    endpoint: str | None = None
    ttl_ms: int = TTL_DAYS * DAY_MS
    tombstone_ms: int = 407 * DAY_MS
    drops_payload: bool = False
    _sync: list[tuple[int, Any]] = field(default_factory=list)
    """The client, and the process that made it."""
    _async: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncExitStack, Any]] = field(
        default_factory=WeakKeyDictionary
    )
    _lock: threading.Lock = field(default_factory=lambda: open_in_forks(threading.Lock()))

    def client(self) -> Any:
        """The client for threads. One that a fork inherits is not used: two processes would read the same answers."""
        with self._lock:
            if self._sync and self._sync[0][0] != os.getpid():
                self._sync.clear()
            if not self._sync:
                # A session of one's own: boto3's default one must not be used by several threads at once.
                inner = botocore.session.Session()
                inner.register_component("data_loader", _LOADER)
                session = boto3.session.Session(botocore_session=inner)
                client = session.client("dynamodb", config=Config(**_PATIENCE), **self._options())
                self._sync.append((os.getpid(), client))
            return self._sync[0][1]

    async def async_client(self) -> Any:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._async:
            try:
                from aiobotocore.config import AioConfig
                from aiobotocore.session import get_session
            except ModuleNotFoundError as missing:
                raise MissingExtra("aiobotocore", "dynamodb") from missing
            stack = AsyncExitStack()
            session = get_session()
            session.register_component("data_loader", _LOADER)
            making = session.create_client("dynamodb", config=AioConfig(**_PATIENCE), **self._options())
            client = await stack.enter_async_context(making)
            if loop in self._async:  # another task was quicker
                await stack.aclose()
            else:
                self._async[loop] = (stack, client)
        return self._async[loop][1]

    def _options(self) -> dict[str, Any]:
        options = {"region_name": self.region, "endpoint_url": self.endpoint}
        return {name: value for name, value in options.items() if value is not None}

    def close(self) -> None:
        while self._sync:
            self._sync.pop()[1].close()

    async def aclose(self) -> None:
        stack, _ = self._async.pop(asyncio.get_running_loop(), (None, None))
        if stack is not None:
            await stack.aclose()

    def create(self, *, wait: bool = True) -> bool:
        """Create the table, billed on demand, with its sparse index and its TTL; False when it is there already."""
        client = self.client()
        keys = [("pk", "HASH"), ("sk", "RANGE")]
        index = [("ipk", "HASH"), ("isk", "RANGE")]
        try:
            client.create_table(
                TableName=self.name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys + index],
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
                GlobalSecondaryIndexes=[
                    {
                        "IndexName": INDEX,
                        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in index],
                        "Projection": {"ProjectionType": "KEYS_ONLY"},
                    }
                ],
            )
        except client.exceptions.ResourceInUseException:
            return False
        if wait:
            client.get_waiter("table_exists").wait(TableName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        client.update_time_to_live(
            TableName=self.name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
        )
        return True


def table_of(url: str) -> Table:
    """*url* taken apart; all that is wrong with it is told at once."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError([f"this URL cannot be read: {error}, got {shown(url)[:60]!r}"]) from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    problems: list[str] = []
    name = parts.netloc
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", name) or parts.path not in ("", "/"):
        problems.append(
            f"dynamodb://table?region=… needs a table of 3-255 letters, digits, _ . -; got {shown(url)[:60]!r}"
        )
    region, endpoint = query.pop("region", None), query.pop("endpoint", None)
    if endpoint is not None and not _is_http(endpoint):
        problems.append(f"endpoint= is a URL of http or https, got {endpoint!r}")
    ttl = query.pop("ttl_days", str(TTL_DAYS))
    if not (ttl.isdigit() and 7 <= int(ttl) <= 3650):
        problems.append(f"ttl_days= is a number from 7 to 3650, got {ttl!r}")
    payload = query.pop("payload", "keep")
    if payload not in ("keep", "drop"):
        problems.append(f"payload= is keep (for replay) or drop (once it is handled), got {payload!r}")
    problems += [f"dynamodb:// has no setting {name!r}" for name in query]
    if problems:
        raise ConfigError(problems)
    return Table(name, region, endpoint, int(ttl) * DAY_MS, drops_payload=payload == "drop")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
