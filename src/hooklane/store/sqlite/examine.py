"""What is true of a SQLite file that an operator should know? Facts; others decide whether they are fine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hooklane.errors import StoreRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFacts:
    journal_mode: str
    problem: str | None
    """What a check of the file found; None where it is whole, or was not checked."""
    log_bytes: int
    """Of the write-ahead log beside it."""


def examine(path: str, *, thorough: bool) -> SqliteFacts:
    """Look at the file at *path* without changing it; *thorough* reads all of it."""
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
            found = connection.execute("PRAGMA quick_check(1)").fetchall() if thorough else [("ok",)]
    except sqlite3.DatabaseError as error:
        raise StoreRefused(f"{path} cannot be read: {error}") from None
    log = Path(f"{path}-wal")
    return SqliteFacts(
        journal_mode=str(mode).lower(),
        problem=None if found == [("ok",)] else str(found[0][0]),
        log_bytes=log.stat().st_size if log.exists() else 0,
    )


def set_wal(path: str) -> None:
    """Put the file into the mode in which readers and the writer do not wait for each other; it stays in it."""
    connection = sqlite3.connect(path, timeout=5)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
