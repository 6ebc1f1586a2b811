"""How does a flow of the sender's store run? Each back-end says on which connection, in which kind of transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from hooklane.store.budget import SEARCH_S_MAX
from hooklane.store.sql.outbox.steps import Flow

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
        """The same for people, beside what delivers; no *s_max* for a chore that must be read to its end."""
