"""What every adapter of a caller's connection has in common: refuse, enter the transaction, run a flow in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from hooklane.errors import UsageError
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement, T, drive, drive_async
from hooklane.store.caller.home import Home

_FAILED_TRANSACTION = "25P02"

# A connection stays on its database, so PostgreSQL is asked once; an entry goes when its connection does.
_verified: WeakKeyDictionary[Any, Home] = WeakKeyDictionary()


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

    def enter(self, home: Home | None) -> Flow[None]:
        """Be inside the caller's transaction, on the right database, or refuse."""
        self.check()
        if home is not None and home.dialect is not self.dialect:
            raise UsageError(f"tx is a {self.dialect} connection ({self.name}), the outbox is on {home.dialect}")
        if home is not None and (home.dialect is Dialect.SQLITE or _verified_home(self.session) != home):
            yield from home.verify()
            _remember(self.session, home)
        yield from self.open()

    def _within(self, flow: Flow[T], home: Home | None) -> Flow[T]:
        try:
            yield from self.enter(home)
            return (yield from flow)
        except Exception as error:
            if sqlstate(error) == _FAILED_TRANSACTION:
                raise self._aborted() from error
            raise
        finally:
            flow.close()

    def _aborted(self) -> UsageError:
        return UsageError(f"tx ({self.name}) is in a transaction that has already failed: roll it back and start again")

    def _autocommit(self, remedy: str) -> UsageError:
        return UsageError(f"tx ({self.name}) is in autocommit with no transaction open, so not atomic: {remedy}")

    def _closed(self) -> UsageError:
        return UsageError(f"tx ({self.name}) is closed")


class SyncCaller(Caller):
    """A blocking connection."""

    is_async = False

    @abstractmethod
    def execute(self, statement: Statement) -> Rows: ...

    def run(self, flow: Flow[T], home: Home | None = None) -> T:
        """Run *flow* in the caller's transaction, after the refusals; with *home*, only on that database."""
        return drive(self._within(flow, home), self.execute)


class AsyncCaller(Caller):
    """An async connection."""

    is_async = True

    @abstractmethod
    async def execute(self, statement: Statement) -> Rows: ...

    def run(self, flow: Flow[T], home: Home | None = None) -> Coroutine[Any, Any, T]:
        """The same, to be awaited; Python warns about one that never was."""
        return drive_async(self._within(flow, home), self.execute)


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a driver's error, also when SQLAlchemy or Django has wrapped it."""
    seen: BaseException | None = error
    for _ in range(4):
        if seen is None:
            return None
        code = getattr(seen, "sqlstate", None) or getattr(seen, "pgcode", None)
        if isinstance(code, str):
            return code
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None


def _verified_home(session: object) -> Home | None:
    try:
        return _verified.get(session)
    except TypeError:
        return None  # this driver's connections cannot be remembered; ask each time


def _remember(session: object, home: Home) -> None:
    with suppress(TypeError):  # see above
        _verified[session] = home
