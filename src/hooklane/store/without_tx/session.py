"""A session of a store without interactive transactions: its buffer is written by the commit, or never."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from hooklane.store.caller.flow import drive, drive_async
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer


class _Store(Protocol):
    def commit(self, buffer: Buffer) -> Flow[None]:
        """Write what was buffered."""

    def roll_back(self, buffer: Buffer) -> Flow[None]:
        """Give back what a session took; what it buffered was never there."""


class _Buffered:
    """What both kinds of session have. What a handler writes goes elsewhere, so that it cannot end the session."""

    def __init__(self, store: _Store, client: Any, buffer: Buffer) -> None:
        self._store = store
        self._client = client
        self._buffer = buffer
        self.tx = buffer.tx
        self._is_open = True


class BufferedSession(_Buffered, ABC):
    """A session for sync code."""

    @abstractmethod
    def perform(self, step: Any) -> Any:
        """Do one step of a flow."""

    def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    def taking_back(self, error: BaseException | None = None) -> None:
        pass

    def commit(self) -> None:
        drive(self._store.commit(self._buffer), self.perform)
        self._is_open = False

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            drive(self._store.roll_back(self._buffer), self.perform)

    def close(self) -> None:
        self.rollback()


class AsyncBufferedSession(_Buffered, ABC):
    """A session for event loops."""

    @abstractmethod
    async def perform(self, step: Any) -> Any:
        """Do one step of a flow."""

    async def handing_over(self) -> None:
        pass  # as above

    async def taking_back(self, error: BaseException | None = None) -> None:
        pass

    async def commit(self) -> None:
        await drive_async(self._store.commit(self._buffer), self.perform)
        self._is_open = False

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            await drive_async(self._store.roll_back(self._buffer), self.perform)

    async def close(self) -> None:
        await self.rollback()
