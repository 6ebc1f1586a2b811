"""Has somebody cancelled the wait of a COMMIT for the synchronous standby? PostgreSQL says that it is done, and warns.

Which function of the server warns is known with every driver but psycopg2, which has the text alone: a trigger that is
deferred to the commit may warn of what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hooklane.errors import StoreUnconfirmed

_WARNS = "SyncRepWaitForLSN"
_WORDS = "canceling wait for synchronous replication"
_FUNCTION = ("source_function", "server_source_function")
"""As psycopg and as asyncpg call it."""


@contextmanager
def standby_waited_for(session: Any) -> Iterator[None]:
    """Round a COMMIT on *session*, a driver's connection: `StoreUnconfirmed` where it was not waited for."""
    warned = False

    def hear(*told: Any) -> None:
        nonlocal warned
        # At once: what psycopg passes can be read during the call only.
        warned = warned or any(getattr(told[-1], name, None) == _WARNS for name in _FUNCTION)

    if hasattr(session, "add_notice_handler"):
        session.add_notice_handler(hear)
        stop = session.remove_notice_handler
    elif hasattr(session, "add_log_listener"):
        session.add_log_listener(hear)
        stop = session.remove_log_listener
    else:
        yield from _read_notices(session)
        return
    try:
        yield
    finally:
        with suppress(Exception):  # it was closed meanwhile
            stop(hear)
    if warned:
        raise _unconfirmed()


def _read_notices(session: Any) -> Iterator[None]:
    """psycopg2's way, which keeps the last fifty texts; SQLite's connections have none."""
    kept = getattr(session, "notices", None)
    if kept is None:
        yield
        return
    heard: list[str] = []
    session.notices = heard
    try:
        yield
    finally:
        session.notices = kept
        for text in heard:
            kept.append(text)
    if any(_WORDS in text for text in heard):
        raise _unconfirmed()


def _unconfirmed() -> StoreUnconfirmed:
    return StoreUnconfirmed(
        "the wait of a COMMIT for the synchronous standby of PostgreSQL was cancelled by hand: a failover may lose it"
    )
