"""Durable mode's group commit: requests that come while an insert is under way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakKeyDictionary

from hooklane.batching.line import Blame, cut, flat
from hooklane.batching.tasks import Requests
from hooklane.batching.thread_requests import ThreadRequests
from hooklane.errors import StoreBusy, StoreUnavailable, StoreUnconfirmed
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.receipt import Receipt

Arrivals = Sequence[Arrival]
"""What one request held."""
ARRIVALS_MAX = 256
BYTES_MAX = 4_194_304
_NAME = "hooklane-inserts"


def _weight(arrivals: Arrivals) -> int:
    """In bytes of at most `BYTES_MAX`; many small arrivals weigh so much that `ARRIVALS_MAX` of them fill a batch."""
    size = sum([len(arrival.message.body) for arrival in arrivals])
    return max(size, len(arrivals) * (BYTES_MAX // ARRIVALS_MAX))


def _blame(error: Exception) -> Blame:
    if isinstance(error, StoreBusy):  # it lost a race with another process
        return Blame.RACE
    return Blame.ALL if isinstance(error, (StoreUnavailable, StoreUnconfirmed)) else Blame.ONE


class InsertBatches:
    """For threads."""

    def __init__(self, insert: Callable[[list[Arrival]], list[Receipt]]) -> None:
        self._requests: ThreadRequests[Arrivals, list[Receipt]] = ThreadRequests(
            lambda items: cut(insert(flat(items)), items), BYTES_MAX, name=_NAME, blame=_blame, weigh=_weight
        )

    @property
    def waiting(self) -> int:
        """How many requests wait for the one that inserts."""
        return len(self._requests)

    def submit(self, arrivals: Arrivals) -> list[Receipt]:
        """Receipts for *arrivals*, after the commit that holds them."""
        return self._requests.ask(arrivals)


class AsyncInsertBatches:
    """For event loops, each with its own batches: an async connection belongs to the loop that made it."""

    def __init__(self, insert: Callable[[list[Arrival]], Awaitable[list[Receipt]]]) -> None:
        self._insert = insert
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, Requests[Arrivals, list[Receipt]]] = WeakKeyDictionary()

    async def submit(self, arrivals: Arrivals) -> list[Receipt]:
        """Receipts for *arrivals*, after the commit that holds them."""
        loop = asyncio.get_running_loop()
        requests = self._of.get(loop)
        if requests is None:
            requests = self._of[loop] = Requests(self._write, BYTES_MAX, name=_NAME, blame=_blame, weigh=_weight)
        return await requests.ask(arrivals)

    async def _write(self, items: list[Arrivals]) -> list[list[Receipt]]:
        return cut(await self._insert(flat(items)), items)
