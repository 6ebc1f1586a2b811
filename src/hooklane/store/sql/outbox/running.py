"""How does a flow of the sender's store run? Each back-end says on which connection, in which kind of transaction.

A verb of a store is a flow and the way in which it runs: `replay = writing(recovery.replay)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from hooklane.store.budget import SEARCH_S_MAX
from hooklane.store.sql.outbox.steps import Flow

P = ParamSpec("P")
T = TypeVar("T")


class RunsFlows(ABC):
    """The three ways in which a back-end runs a flow."""

    @abstractmethod
    async def _write(self, flow: Callable[[], Flow[T]]) -> T:
        """Run a flow and commit it durably; it is made anew for each try."""

    @abstractmethod
    async def _read(self, flow: Callable[[], Flow[T]]) -> T:
        """Run a flow that only reads, on one snapshot, for deliveries: nothing that takes long."""

    @abstractmethod
    async def _ask(self, flow: Callable[[], Flow[T]], *, s_max: float | None = SEARCH_S_MAX) -> T:
        """Run a flow that reads for people, beside what delivers; no *s_max* for a chore that must come to its end."""

    async def _write_often(self, flow: Callable[P, Flow[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """`_write` of what a server writes by itself, again and again, beside publishes and outcomes.

        A named *flow* and values, so that a store may have another process run it.
        """
        return await self._write(lambda: flow(*args, **kwargs))


Verb = Callable[Concatenate[RunsFlows, P], Coroutine[Any, Any, T]]


def writing(flow: Callable[P, Flow[T]]) -> Verb[P, T]:
    """The verb that runs *flow* and commits it durably."""

    async def verb(store: RunsFlows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._write(lambda: flow(*args, **kwargs))

    return verb


def writing_often(flow: Callable[P, Flow[T]]) -> Verb[P, T]:
    """The verb of what a server writes by itself, again and again."""

    async def verb(store: RunsFlows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._write_often(flow, *args, **kwargs)

    return verb


def reading(flow: Callable[P, Flow[T]]) -> Verb[P, T]:
    """The verb that runs *flow* for deliveries."""

    async def verb(store: RunsFlows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._read(lambda: flow(*args, **kwargs))

    return verb


def asking(flow: Callable[P, Flow[T]], *, s_max: float | None = SEARCH_S_MAX) -> Verb[P, T]:
    """The verb that runs *flow* for people, for up to *s_max* seconds."""

    async def verb(store: RunsFlows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._ask(lambda: flow(*args, **kwargs), s_max=s_max)

    return verb
