"""What does an error code of a database mean? One table for PostgreSQL's SQLSTATEs, one for SQLite's result codes."""

from __future__ import annotations

from enum import StrEnum


class Meaning(StrEnum):
    """What is true after an error of the database."""

    LOST_RACE = "lost_race"
    """Another transaction was in the way (deadlock, serialization, lock timeout): the same may go right at once."""
    CUT_SHORT = "cut_short"
    """A time limit ended it, or an operator."""
    SHORT_OF = "short_of"
    """The server is out of connections, memory or another resource."""
    FULL = "full"
    """The server's disk is full."""
    AWAY = "away"
    """The connection is lost, or the server cannot serve it now."""
    ABORTED = "aborted"
    """An earlier error of the same transaction was caught, and nothing more can be done in it."""
    BROKEN_RULE = "broken_rule"
    """A constraint of the schema."""
    REFUSED = "refused"
    """Not there, or not allowed."""


_SQLSTATES = {
    "40001": Meaning.LOST_RACE,  # serialization failure
    "40P01": Meaning.LOST_RACE,  # deadlock victim
    "55P03": Meaning.LOST_RACE,  # lock timeout, NOWAIT
    "57014": Meaning.CUT_SHORT,  # statement timeout, pg_cancel_backend
    "25P03": Meaning.CUT_SHORT,  # idle in transaction for too long
    "25P04": Meaning.CUT_SHORT,  # transaction timeout
    "53100": Meaning.FULL,
    "53": Meaning.SHORT_OF,
    "08": Meaning.AWAY,
    "57P0": Meaning.AWAY,  # shut down, crashed, starting up
    "25006": Meaning.AWAY,  # a standby: what was the primary before a failover
    "25P02": Meaning.ABORTED,
    "23": Meaning.BROKEN_RULE,
    "28": Meaning.REFUSED,
    "3D": Meaning.REFUSED,
    "3F": Meaning.REFUSED,
    "42501": Meaning.REFUSED,
    "42P01": Meaning.REFUSED,
}
"""By the code, or the beginning that a family of codes shares."""

_SQLITE = {
    5: Meaning.LOST_RACE,  # SQLITE_BUSY
    6: Meaning.LOST_RACE,  # SQLITE_LOCKED
    13: Meaning.FULL,  # SQLITE_FULL
    19: Meaning.BROKEN_RULE,  # SQLITE_CONSTRAINT
}


def meaning_of_sqlstate(code: str) -> Meaning | None:
    """The meaning of PostgreSQL's *code*; None for one that says nothing but that the statement was wrong."""
    for length in range(5, 1, -1):
        if (found := _SQLSTATES.get(code[:length])) is not None:
            return found
    return None


def meaning_of_sqlite(code: int) -> Meaning | None:
    """The meaning of SQLite's result *code*, extended or not; None for one that says nothing more."""
    return _SQLITE.get(code & 0xFF)
