"""To which run of which server does a connection lead?

A run lasts from the start of a server to its stop, crash or failover, and no connection outlives it. What a server has
shown in one run it may have forgotten in the next: a crash loses what was not flushed, a failover what the standby had
not got.
"""

from __future__ import annotations

from typing import Any

from hooklane.errors import MissingExtra, StoreError
from hooklane.store.sql.queries import queries_of

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("asyncpg", "postgres") from missing

ASK_WAIT_S = 10.0
_RUN = queries_of("hooklane.store.postgres")["run"]


class OtherRun(StoreError):
    """The server was restarted or replaced since the run that was asked for: nothing was done."""


class Session(asyncpg.Connection):  # type: ignore[misc]
    """A connection that knows to which run it leads."""

    run: int = 0


class Runs:
    """The runs that the connections of one pool have met, counted."""

    def __init__(self) -> None:
        self.now = 0
        """The run to which the newest connection leads; 0 while nothing is known, as behind a pooler."""
        self._server: Any = None
        self._is_told = True

    async def greet(self, connection: Any) -> None:
        """Ask a new connection where it leads. Some hosts do not tell; then no run is known any more."""
        if not self._is_told:
            return
        try:
            server = await connection.fetchrow(_RUN, timeout=ASK_WAIT_S)
        except asyncpg.PostgresError:
            self._is_told, self.now = False, 0
            return
        if server != self._server:
            self._server = server
            self.now += 1
        connection.run = self.now

    def is_current(self, connection: Any) -> bool:
        """Whether no newer connection has met a later run: a server that was cut off may not know that it is over."""
        return self.now in (0, connection.run)
