"""Can this URL of a PostgreSQL be read? Where not, the drivers quote what they could not read: a password."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hooklane.errors import StoreRefused
from hooklane.model.database_url import shown

_AUTHORITY = re.compile(r"\w+://([^/?#]*)")
_UNKNOWN = re.compile(r'invalid URI query parameter: "(\w+)"')


def address(url: str) -> str:
    """*url* as it is told to people: without its password and its settings."""
    return shown(url).partition("?")[0]


def misread(url: str) -> StoreRefused:
    """What is said of a *url* that cannot be read."""
    return StoreRefused(
        f"{address(url)}: this URL cannot be read: in a password, write / as %2F, @ as %40, : as %3A, # as %23,"
        " ? as %3F, % as %25 and a blank as %20"
    )


def unread(url: str, error: ValueError) -> StoreRefused:
    """What is said where asyncpg could not use *url*."""
    try:
        urlsplit(url).port  # noqa: B018 - it is read when asked for
    except ValueError:
        return misread(url)
    return StoreRefused(f"{address(url)}: {error}")


def check_address(url: str) -> None:
    """`StoreRefused` where libpq would not read *url*, or would take a part of its password for something else."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError as error:
        unknown, found = _UNKNOWN.search(str(error)), _AUTHORITY.match(url)
        authority = found[1] if found else ""
        if unknown is None or (":" in authority and "@" not in authority):
            raise misread(url) from None
        raise StoreRefused(f"{address(url)}: PostgreSQL has no parameter {unknown[1]!r}") from None
    # A slash in the password ends the host before its @ is reached; an @ in it is taken for the last one.
    is_cut = "user" not in parts and "@" in url.partition("?")[0]
    ports = [port for port in parts.get("port", "").split(",") if port]
    if is_cut or "@" in parts.get("host", "") or not all(port.isdigit() for port in ports):
        raise misread(url)
