"""A session on Redis: calls of scripts, and a commit that is one script per bucket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from redis import exceptions as faults

from hooklane.batching.line import Blame, cut, flat
from hooklane.batching.tasks import Requests
from hooklane.errors import StoreError, StoreFull, StoreUnavailable, UsageError
from hooklane.store.redis.pack import insert_words
from hooklane.store.redis.scripts import script
from hooklane.store.without_tx.buffer import Buffer, Pause, State
from hooklane.store.without_tx.session import AsyncBufferedSession, BufferedSession

if TYPE_CHECKING:
    from hooklane.store.redis.store import RedisInbox

Lines = list[tuple[str, bytes, tuple[Any, ...]]]
TOGETHER_MAX = 128


@dataclass(frozen=True, slots=True)
class Call:
    """A step: run a script of ours on the bucket whose keys begin with *prefix*; *args* is MessagePack."""

    script: str
    prefix: str
    args: bytes


@dataclass(frozen=True, slots=True)
class Insert:
    """A step: insert rows, as `pack.row_args` makes them, into the bucket; answers a place or None for each."""

    prefix: str
    rows: Lines


@dataclass(frozen=True, slots=True)
class Command:
    """A step: a plain command."""

    words: tuple[Any, ...]


class NoTransaction:
    """What a handler gets as `tx`: Redis cannot be part of the transaction of a database."""

    def __getattr__(self, name: str) -> Any:
        raise UsageError(
            f"tx.{name}: an inbox on Redis cannot join your database's transaction. Open one of your own in the"
            " handler: it is applied at least once, so make it idempotent (event.step_key helps)"
        )

    def __repr__(self) -> str:
        return "<no transaction: the inbox is on Redis>"


TX = NoTransaction()


class RedisSession(BufferedSession):
    """For threads."""

    _store: RedisInbox

    def perform(self, step: Any) -> Any:
        match step:
            case Call(name, prefix, args):
                return self._call(name, prefix, args)
            case Insert(prefix, rows):
                return self._call("insert", prefix, *insert_words(self._store.keeping, rows))
            case State():
                return self._buffer
            case Pause(ms):
                time.sleep(ms / 1000)
                return None
            case Command(words):
                with faults_named():
                    return self._client.execute_command(*words)
        raise AssertionError(f"not a step of Redis: {step}")

    def _call(self, name: str, prefix: str, *args: Any) -> Any:
        found = script(name)
        with faults_named():
            try:
                return self._client.execute_command("EVALSHA", found.sha, 1, prefix, *args)
            except faults.NoScriptError:
                return self._client.execute_command("EVAL", found.text, 1, prefix, *args)


async def call(client: Any, name: str, prefix: str, *args: Any) -> Any:
    """Run a script in this event loop."""
    found = script(name)
    with faults_named():
        try:
            return await client.execute_command("EVALSHA", found.sha, 1, prefix, *args)
        except faults.NoScriptError:
            return await client.execute_command("EVAL", found.text, 1, prefix, *args)


class Inserts:
    """Rows that come while others are on their way share the next call: no delay is added, and claims get cheaper.

    One for each client, and so for each event loop.
    """

    def __init__(self, client: Any, keeping: Sequence[int]) -> None:
        self._client = client
        self._keeping = keeping
        self._of: dict[str, Requests[Lines, list[Any]]] = {}

    async def insert(self, prefix: str, rows: Lines) -> list[Any]:
        """An answer for each of *rows*."""
        requests = self._of.get(prefix)
        if requests is None:
            write = partial(self._write, prefix)
            requests = self._of[prefix] = Requests(write, TOGETHER_MAX, name="hooklane claims", blame=_blame, weigh=len)
        return await requests.ask(rows)

    async def _write(self, prefix: str, items: list[Lines]) -> list[list[Any]]:
        words = insert_words(self._keeping, flat(items))
        return cut(await call(self._client, "insert", prefix, *words), items)


def _blame(error: Exception) -> Blame:
    return Blame.ONE if isinstance(error, StoreError) and not isinstance(error, StoreUnavailable) else Blame.ALL


class AsyncRedisSession(AsyncBufferedSession):
    """A `RedisSession` for event loops."""

    def __init__(self, store: RedisInbox, client: Any, inserts: Inserts, buffer: Buffer) -> None:
        super().__init__(store, client, buffer)
        self._inserts = inserts

    async def perform(self, step: Any) -> Any:
        match step:
            case Call(name, prefix, args):
                return await call(self._client, name, prefix, args)
            case Insert(prefix, rows):
                return await self._inserts.insert(prefix, rows)
            case State():
                return self._buffer
            case Pause(ms):
                return await asyncio.sleep(ms / 1000)
            case Command(words):
                with faults_named():
                    return await self._client.execute_command(*words)
        raise AssertionError(f"not a step of Redis: {step}")


@contextmanager
def faults_named() -> Iterator[None]:
    """What Redis raises, as ours: the type says what is true now."""
    try:
        yield
    except faults.OutOfMemoryError as error:
        raise StoreFull(f"Redis is full: {error}") from error
    except (
        faults.ConnectionError, faults.TimeoutError, faults.BusyLoadingError, faults.ReadOnlyError,
        faults.ClusterDownError, faults.TryAgainError, faults.MasterDownError, faults.RedisClusterException, OSError,
    ) as error:  # fmt: skip
        answered = isinstance(error, (faults.ResponseError, faults.BusyLoadingError))
        raise StoreUnavailable(f"Redis cannot {'serve this now' if answered else 'be reached'}: {error}") from error
    except faults.ResponseError as error:
        text = str(error)
        if "OOM" in text[:64]:
            raise StoreFull(f"Redis is full: {text}") from error
        if text.startswith(("MISCONF", "NOREPLICAS", "READONLY")):
            raise StoreUnavailable(f"Redis takes no writes: {text}") from error
        raise StoreError(f"Redis refused: {text}") from error
    except faults.RedisError as error:
        raise StoreError(f"Redis: {error}") from error
