"""Are the files of a SQLite database still those that were opened? A commit to a removed file succeeds, and is lost."""

from __future__ import annotations

import os


class DatabaseFiles:
    """The file of a database and its write-ahead log, which SQLite keeps as long as a connection is open."""

    __slots__ = ("_file", "_log", "_log_path", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._log_path = f"{path}-wal"
        self._file = _identity(path)
        self._log = _identity(self._log_path)

    def lost(self) -> str | None:
        """The path at which another file stands than at first, or none."""
        if _identity(self._path) != self._file:
            return self._path
        log = _identity(self._log_path)
        if self._log is None:
            self._log = log  # SQLite makes it with the first transaction
        return self._log_path if log != self._log else None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # after each commit: a Path would cost as much again
    except OSError:
        return None
    return found.st_dev, found.st_ino
