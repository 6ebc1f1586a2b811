"""A session on Redis: calls of scripts, and a commit that is one script per bucket. Sync and async differ in the wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import redis
import redis.asyncio
from redis import exceptions as faults

from hooklane.errors import StoreError, StoreFull, StoreUnavailable, UsageError
from hooklane.store.inbox import Flow
from hooklane.store.leased.buffer import Buffer, Pause, State
from hooklane.store.redis.scripts import script

if TYPE_CHECKING:
    from hooklane.store.redis.store import RedisInbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A step: run a script of ours on the bucket whose keys begin with *prefix*; *args* is MessagePack."""

    script: str
    prefix: str
    args: bytes


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


class RedisSession:
    """For threads."""

    def __init__(self, store: RedisInbox, client: Any, buffer: Buffer) -> None:
        self._store = store
        self._client = client
        self._buffer = buffer
        self._is_open = True
        self.tx = TX

    def perform(self, step: Any) -> Any:
        match step:
            case Call(name, prefix, args):
                return self._call(name, prefix, args)
            case State():
                return self._buffer
            case Pause(ms):
                time.sleep(ms / 1000)
                return None
            case Command(words):
                with faults_named():
                    return self._client.execute_command(*words)
        raise AssertionError(f"not a step of Redis: {step}")

    def _call(self, name: str, prefix: str, args: bytes) -> Any:
        found = script(name)
        with faults_named():
            try:
                return self._client.execute_command("EVALSHA", found.sha, 1, prefix, args)
            except faults.NoScriptError:
                return self._client.execute_command("EVAL", found.text, 1, prefix, args)

    def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    def taking_back(self, error: BaseException | None = None) -> None:
        pass

    def commit(self) -> None:
        self._run(self._store.commit(self._buffer))
        self._is_open = False

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            self._run(self._store.roll_back(self._buffer))

    def close(self) -> None:
        self.rollback()

    def _run(self, flow: Flow[T]) -> T:
        value = None
        try:
            while True:
                value = self.perform(flow.send(value))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class AsyncRedisSession:
    """The same for event loops."""

    def __init__(self, store: RedisInbox, client: Any, buffer: Buffer) -> None:
        self._store = store
        self._client = client
        self._buffer = buffer
        self._is_open = True
        self.tx = TX

    async def perform(self, step: Any) -> Any:
        match step:
            case Call(name, prefix, args):
                return await self._call(name, prefix, args)
            case State():
                return self._buffer
            case Pause(ms):
                return await asyncio.sleep(ms / 1000)
            case Command(words):
                with faults_named():
                    return await self._client.execute_command(*words)
        raise AssertionError(f"not a step of Redis: {step}")

    async def _call(self, name: str, prefix: str, args: bytes) -> Any:
        found = script(name)
        with faults_named():
            try:
                return await self._client.execute_command("EVALSHA", found.sha, 1, prefix, args)
            except faults.NoScriptError:
                return await self._client.execute_command("EVAL", found.text, 1, prefix, args)

    async def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    async def taking_back(self, error: BaseException | None = None) -> None:
        pass

    async def commit(self) -> None:
        await self._run(self._store.commit(self._buffer))
        self._is_open = False

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._run(self._store.roll_back(self._buffer))

    async def close(self) -> None:
        await self.rollback()

    async def _run(self, flow: Flow[T]) -> T:
        value = None
        try:
            while True:
                value = await self.perform(flow.send(value))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@contextmanager
def faults_named() -> Iterator[None]:
    """What Redis raises, as ours: the type says what is true now."""
    try:
        yield
    except faults.OutOfMemoryError as error:
        raise StoreFull(f"Redis is full: {error}") from error
    except (
        faults.ConnectionError, faults.TimeoutError, faults.BusyLoadingError, faults.ReadOnlyError,
        faults.ClusterDownError, faults.TryAgainError, faults.MasterDownError, OSError,
    ) as error:  # fmt: skip
        raise StoreUnavailable(f"Redis is not there: {error}") from error
    except faults.ResponseError as error:
        text = str(error)
        if "OOM" in text[:64]:
            raise StoreFull(f"Redis is full: {text}") from error
        if text.startswith(("MISCONF", "NOREPLICAS", "READONLY")):
            raise StoreUnavailable(f"Redis takes no writes: {text}") from error
        raise StoreError(f"Redis refused: {text}") from error
    except faults.RedisError as error:
        raise StoreError(f"Redis: {error}") from error
