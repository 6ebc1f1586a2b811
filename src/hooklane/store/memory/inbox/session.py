"""One transaction in memory: what it changed, how to undo that, and what it holds until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hooklane.errors import StoreBusy

if TYPE_CHECKING:
    from hooklane.store.memory.inbox.tables import Memory


@dataclass(frozen=True, slots=True)
class Do:
    """A step: call *change* with the transaction, all tables to oneself."""

    change: Callable[[MemorySession], Any]


class MemoryTx(MutableMapping[Any, Any]):
    """What a handler gets: a dictionary that is part of the transaction."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    def __getitem__(self, key: Any) -> Any:
        with self._session.store.lock:
            return self._session.store.tables.data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._session.store.lock:
            self._session.put(self._session.store.tables.data, key, value)

    def __delitem__(self, key: Any) -> None:
        with self._session.store.lock:
            self._session.drop(self._session.store.tables.data, key)

    def __iter__(self) -> Iterator[Any]:
        with self._session.store.lock:
            return iter(list(self._session.store.tables.data))

    def __len__(self) -> int:
        return len(self._session.store.tables.data)


class MemorySession:
    """One transaction; the same object serves sync code, and async code through `AsyncMemorySession`."""

    def __init__(self, store: Memory, wait_ms: int) -> None:
        self.store = store
        self.tx = MemoryTx(self)
        self.wait_ms = wait_ms
        self._undo: list[Callable[[], None]] = []
        self._held: set[Any] = set()

    def perform(self, step: Do) -> Any:
        with self.store.lock:
            return step.change(self)

    def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    def taking_back(self, error: BaseException | None = None) -> None:
        pass

    def commit(self) -> None:
        with self.store.lock:
            self._undo.clear()
            self._free()

    def rollback(self) -> None:
        with self.store.lock:
            while self._undo:
                self._undo.pop()()
            self._free()

    def close(self) -> None:
        self.rollback()

    def hold(self, thing: Any) -> bool:
        """Lock *thing* for this transaction; False when another has it."""
        owner = self.store.locks.setdefault(thing, self)
        if owner is self:
            self._held.add(thing)
        return owner is self

    def must_hold(self, thing: Any) -> None:
        """Lock *thing*, waiting for the other transaction a little."""
        if not self.store.freed.wait_for(lambda: self.hold(thing), timeout=self.wait_ms / 1000):
            raise StoreBusy("another transaction of this process holds what is needed")

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        had, before = key in table, table.get(key)
        self._undo.append(lambda: table.__setitem__(key, before) if had else table.pop(key, None))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        before = table[key]
        self._undo.append(lambda: table.__setitem__(key, before))
        del table[key]

    def change(self, entry: Any, **values: Any) -> None:
        before = {name: getattr(entry, name) for name in values}

        def undo() -> None:
            for name, value in before.items():
                setattr(entry, name, value)

        self._undo.append(undo)
        for name, value in values.items():
            setattr(entry, name, value)

    def _free(self) -> None:
        for thing in self._held:
            self.store.locks.pop(thing, None)
        self._held.clear()
        self.store.freed.notify_all()


class AsyncMemorySession:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    @property
    def tx(self) -> MemoryTx:
        return self._session.tx

    async def perform(self, step: Do) -> Any:
        return self._session.perform(step)

    async def handing_over(self) -> None:
        pass

    async def taking_back(self, error: BaseException | None = None) -> None:
        pass

    async def commit(self) -> None:
        self._session.commit()

    async def rollback(self) -> None:
        self._session.rollback()

    async def close(self) -> None:
        self._session.close()
