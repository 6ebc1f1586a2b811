"""A session on DynamoDB: calls, some of them at the same time, and a commit that is one TransactWriteItems."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore import exceptions as faults

from hooklane.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable, UsageError
from hooklane.store.without_tx.buffer import Buffer, Pause, State
from hooklane.store.without_tx.session import AsyncBufferedSession, BufferedSession

if TYPE_CHECKING:
    from hooklane.store.dynamodb.store import DynamoInbox

TRIES_MAX = 8
BACKOFF_S, BACKOFF_S_MAX = 0.02, 1.0
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TransactionConflictException",
    "TransactionInProgressException",
    "InternalServerError",
}
_PASSING = {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"}


@dataclass(frozen=True, slots=True)
class Api:
    """A step: call *operation*; answers what DynamoDB answers, or `Refused` when a condition did not hold."""

    operation: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Many:
    """A step: several calls at the same time; answers theirs, in order."""

    calls: Sequence[Api]


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition did not hold. *item* is what is there, where that was asked for; *codes* has each write's reason."""

    item: dict[str, Any]
    codes: tuple[str, ...] = ()


class DynamoSession(BufferedSession):
    """For threads."""

    _store: DynamoInbox

    def __init__(self, store: DynamoInbox, client: Any, threads: ThreadPoolExecutor, buffer: Buffer) -> None:
        super().__init__(store, client, buffer)
        self._threads = threads

    def perform(self, step: Any) -> Any:
        match step:
            case Api(operation, params):
                return self._call(operation, params)
            case Many(calls):
                if len(calls) == 1:
                    return [self._call(calls[0].operation, calls[0].params)]
                return list(self._threads.map(lambda call: self._call(call.operation, call.params), calls))
            case State():
                return self._buffer
            case Pause(ms):
                time.sleep(ms / 1000)
                return None
        raise AssertionError(f"not a step of DynamoDB: {step}")

    def _call(self, operation: str, params: dict[str, Any]) -> Any:
        for tried in range(TRIES_MAX):
            try:
                return getattr(self._client, operation)(**params)
            except Exception as error:
                answer = judged(error, tried, self._store.table)
            if isinstance(answer, Refused):
                return answer
            time.sleep(answer)
        raise StoreUnavailable("DynamoDB was busy at each of several tries; repeat the call in a moment")

    def taking_back(self, error: BaseException | None = None) -> None:
        self.tx.close()


class AsyncDynamoSession(AsyncBufferedSession):
    """A `DynamoSession` for event loops."""

    _store: DynamoInbox

    async def perform(self, step: Any) -> Any:
        match step:
            case Api(operation, params):
                return await self._call(operation, params)
            case Many(calls):
                return await asyncio.gather(*(self._call(call.operation, call.params) for call in calls))
            case State():
                return self._buffer
            case Pause(ms):
                return await asyncio.sleep(ms / 1000)
        raise AssertionError(f"not a step of DynamoDB: {step}")

    async def _call(self, operation: str, params: dict[str, Any]) -> Any:
        for tried in range(TRIES_MAX):
            try:
                return await getattr(self._client, operation)(**params)
            except Exception as error:
                answer = judged(error, tried, self._store.table)
            if isinstance(answer, Refused):
                return answer
            await asyncio.sleep(answer)
        raise StoreUnavailable("DynamoDB was busy at each of several tries; repeat the call in a moment")

    async def taking_back(self, error: BaseException | None = None) -> None:
        self.tx.close()


def judged(error: Exception, tried: int, table: str, roll: Callable[[], float] = random.random) -> Refused | float:
    """What an error means: a refused condition, seconds to wait before the next try, or one of our exceptions."""
    if isinstance(error, faults.ClientError):
        told = error.response.get("Error", {})
        code, message = told.get("Code", ""), told.get("Message", "")
        if code == "ConditionalCheckFailedException":
            return Refused(error.response.get("Item", {}))
        if code == "TransactionCanceledException":
            reasons = error.response.get("CancellationReasons", [])
            codes = tuple(reason.get("Code", "None") for reason in reasons)
            if not any(code in _PASSING for code in codes) or "ConditionalCheckFailed" in codes:
                if "ConditionalCheckFailed" not in codes:
                    for reason in reasons:
                        _refuse_outgrown(reason.get("Message", ""), error)
                    raise UsageError(f"DynamoDB refused the transaction: {message}") from error
                return Refused(next((reason["Item"] for reason in reasons if "Item" in reason), {}), codes)
            code = "TransactionConflictException"
        if code in _THROTTLED:
            if tried == TRIES_MAX - 1:
                raise StoreUnavailable(f"DynamoDB is throttling us: {message or code}") from error
            return float(roll() * min(BACKOFF_S_MAX, BACKOFF_S * 2**tried))
        if code == "ResourceNotFoundException":
            raise StoreRefused(
                f"there is no table {table!r} (or one that a handler names is missing): create ours with"
                f"  hooklane inbox create-table --store 'dynamodb://{table}'"
            ) from error
        if code in ("ValidationException", "ItemCollectionSizeLimitExceededException"):
            _refuse_outgrown(message, error)
            raise UsageError(f"DynamoDB does not take this: {message}") from error
        raise StoreError(f"DynamoDB: {code}: {message}") from error
    if isinstance(error, faults.ParamValidationError):
        raise UsageError(f"DynamoDB does not take this: {error}") from error
    if isinstance(error, (faults.BotoCoreError, OSError, asyncio.TimeoutError)):
        raise StoreUnavailable(f"DynamoDB cannot be reached: {error}") from error
    raise error


def _refuse_outgrown(message: str, error: Exception) -> None:
    """An item that has grown to 400 KB takes no more for now. Ours is a key's line, which knows all that waits for it:
    there is room when some of that is done."""
    if "Item size to update has exceeded" in message:
        raise StoreFull(
            "DynamoDB holds 400 KB in an item, and one has grown to that: so many events of one key wait that no more"
            " are taken; see why the first of them is not done"
        ) from error
