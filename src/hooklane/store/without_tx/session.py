"""A session of a store without interactive transactions: its buffer is written by the commit, or never."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from hooklane.store.caller.flow import drive, drive_async
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer


class _Buffered(ABC):
    """What both kinds of session have. What a handler writes goes elsewhere, so that it cannot end the session."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._is_open = True

    @abstractmethod
    def _to_commit(self) -> Flow[Any]:
        """Write what was buffered."""

    @abstractmethod
    def _to_roll_back(self) -> Flow[Any]:
        """Give back what this session took."""


class BufferedSession(_Buffered):
    """A session for sync code."""

    @abstractmethod
    def perform(self, step: Any) -> Any:
        """Do one step of a flow."""

    def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    def taking_back(self, error: BaseException | None = None) -> None:
        pass

    def commit(self) -> None:
        drive(self._to_commit(), self.perform)
        self._is_open = False

    def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            drive(self._to_roll_back(), self.perform)

    def close(self) -> None:
        self.rollback()


class AsyncBufferedSession(_Buffered):
    """A session for event loops."""

    @abstractmethod
    async def perform(self, step: Any) -> Any:
        """Do one step of a flow."""

    async def handing_over(self) -> None:
        pass  # as above

    async def taking_back(self, error: BaseException | None = None) -> None:
        pass

    async def commit(self) -> None:
        await drive_async(self._to_commit(), self.perform)
        self._is_open = False

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            await drive_async(self._to_roll_back(), self.perform)

    async def close(self) -> None:
        await self.rollback()
