"""What did the database say? Its code, under whatever has wrapped the error: SQLAlchemy, Django, a handler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from hooklane.model.sqlstate import Meaning, meaning_of_sqlite, meaning_of_sqlstate

CAUSES_MAX = 64
_DRIVERS = ("psycopg", "psycopg2", "psycopg_pool", "asyncpg")


def causes(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """*error*, and all that it came from or holds, the nearest first: SQLAlchemy's `orig`, `raise … from …`, what was
    being handled when it was raised (also where `from` has *hidden* it), and the members of a group."""
    waiting: deque[BaseException] = deque([error])
    seen: set[int] = set()
    while waiting and len(seen) < CAUSES_MAX:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        context = one.__context__ if hidden or not one.__suppress_context__ else None
        inner = field_of(one, "orig"), one.__cause__, context
        waiting.extend(each for each in inner if isinstance(each, BaseException))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a driver's error, also when SQLAlchemy or Django has wrapped it."""
    return next((code for one in causes(error) if (code := _code(one)) is not None), None)


def meanings(error: BaseException) -> Iterator[Meaning]:
    """What each error of a database in *error* means, the nearest first."""
    for one in causes(error):
        if (meaning := _meaning(one)) is not None:
            yield meaning


def _meaning(error: BaseException) -> Meaning | None:
    if (code := _code(error)) is not None:
        return meaning_of_sqlstate(code)
    if isinstance(number := field_of(error, "sqlite_errorcode"), int):
        return meaning_of_sqlite(number)
    return Meaning.AWAY if _is_lost(error) else None


def is_coded(error: BaseException) -> bool:
    """Whether a database has said what it is, and not only a driver."""
    return _code(error) is not None or isinstance(field_of(error, "sqlite_errorcode"), int)


def _code(error: BaseException) -> str | None:
    codes = field_of(error, "sqlstate"), field_of(error, "pgcode")
    return next((code for code in codes if isinstance(code, str) and code), None)


def field_of(error: BaseException, name: str) -> Any:
    """What *error* has under *name*; None where it has nothing, or its own code cannot say."""
    try:
        return getattr(error, name, None)
    except BaseException:  # a handler may raise anything, also what hands questions on to something that is gone
        return None


def _is_lost(error: BaseException) -> bool:
    """Whether the driver itself found that its connection is gone: no server was there to give a code."""
    kinds = {kind.__name__ for kind in type(error).__mro__ if str(kind.__module__).partition(".")[0] in _DRIVERS}
    return "OperationalError" in kinds or ("InterfaceError" in kinds and "closed" in str(error))
