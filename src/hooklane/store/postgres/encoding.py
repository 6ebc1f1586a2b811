"""Can this database hold every text? One event that it cannot hold would be refused for ever, and others with it."""

from __future__ import annotations

from hooklane.errors import StoreRefused
from hooklane.store.caller import Flow, Statement
from hooklane.store.sql.queries import queries_of

ENCODINGS = ("UTF8", "SQL_ASCII")
"""The second means that PostgreSQL does not look at the bytes; ours are always UTF-8."""
_ASKED = Statement(queries_of("hooklane.store.postgres")["encodings"])


def check_encoding(server: str) -> None:
    """Refuse a database that is kept in an encoding of one part of the world."""
    if server not in ENCODINGS:
        raise StoreRefused(
            f"the encoding of this database is {server}, which cannot hold every text: hooklane needs one"
            " made with  CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


def check_encodings() -> Flow[None]:
    """The same over any connection, an application's own too, which must speak UTF-8 itself."""
    ((server, client),) = yield _ASKED
    # A driver that is told nothing of the encoding hands over bytes.
    server, client = (each.decode() if isinstance(each, bytes) else str(each) for each in (server, client))
    check_encoding(server)
    if client != "UTF8":
        raise StoreRefused(
            f"the client_encoding of this connection is {client}, which cannot say every text: hooklane needs UTF8"
            " (client_encoding=utf8 in the URL, or PGCLIENTENCODING)"
        )
