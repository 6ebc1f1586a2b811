"""What every adapter of a caller's connection has in common: refuse, enter the transaction, run a flow in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from hooklane.errors import TransactionAborted, UsageError
from hooklane.store.caller.causes import sqlstate
from hooklane.store.caller.database_identity import DatabaseIdentity
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement, T, drive, drive_async

_FAILED_TRANSACTION = "25P02"

# A connection stays on its database, so PostgreSQL is asked once; an entry goes when its connection does.
_verified: WeakKeyDictionary[Any, DatabaseIdentity] = WeakKeyDictionary()


class Caller(ABC):
    """A caller's own connection, in whose transaction we write; we never commit it and never roll it back."""

    is_async: ClassVar[bool]
    name: str
    """The driver's class, for messages."""
    dialect: Dialect

    @abstractmethod
    def check(self) -> None:
        """Refuse what cannot be atomic with the caller's own writes; no I/O."""

    def open(self) -> Flow[None]:
        """Make sure that a transaction is open, where the driver would not do it by itself."""
        yield from ()

    @property
    @abstractmethod
    def session(self) -> object:
        """The driver's own connection, under whatever wraps it."""

    def enter(self, identity: DatabaseIdentity | None) -> Flow[None]:
        """Be inside the caller's transaction, on the right database, or refuse."""
        self.check()
        if identity is not None and identity.dialect is not self.dialect:
            raise UsageError(f"tx is a {self.dialect} connection ({self.name}), the outbox is on {identity.dialect}")
        if identity is not None and (
            identity.dialect is Dialect.SQLITE or _verified_identity(self.session) != identity
        ):
            yield from identity.verify()
            _remember(self.session, identity)
        yield from self.open()

    def _within(self, flow: Flow[T], identity: DatabaseIdentity | None) -> Flow[T]:
        try:
            yield from self.enter(identity)
            return (yield from flow)
        except Exception as error:
            if sqlstate(error) == _FAILED_TRANSACTION:
                raise self._aborted() from error
            raise
        finally:
            flow.close()

    def _aborted(self) -> TransactionAborted:
        return TransactionAborted(
            f"tx ({self.name}) is in a transaction that has already failed: roll it back and start again"
        )

    def _autocommit(self, remedy: str) -> UsageError:
        return UsageError(f"tx ({self.name}) is in autocommit with no transaction open, so not atomic: {remedy}")

    def _closed(self) -> UsageError:
        return UsageError(f"tx ({self.name}) is closed")


class SyncCaller(Caller):
    """A blocking connection."""

    is_async = False

    @abstractmethod
    def execute(self, statement: Statement) -> Rows: ...

    def run(self, flow: Flow[T], identity: DatabaseIdentity | None = None) -> T:
        """Run *flow* in the caller's transaction, after the refusals; with *identity*, only on that database."""
        return drive(self._within(flow, identity), self.execute)


class AsyncCaller(Caller):
    """An async connection."""

    is_async = True

    @abstractmethod
    async def execute(self, statement: Statement) -> Rows: ...

    def run(self, flow: Flow[T], identity: DatabaseIdentity | None = None) -> Coroutine[Any, Any, T]:
        """Run *flow* as `SyncCaller.run` does. Await the result: Python warns about one that was never awaited."""
        return drive_async(self._within(flow, identity), self.execute)


def _verified_identity(session: object) -> DatabaseIdentity | None:
    try:
        return _verified.get(session)
    except TypeError:
        return None  # this driver's connections cannot be remembered; ask each time


def _remember(session: object, identity: DatabaseIdentity) -> None:
    with suppress(TypeError):  # see above
        _verified[session] = identity
