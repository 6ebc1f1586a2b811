"""Who may read a database file? Its owner: it holds signing secrets and payloads."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("hooklane.store")

_BESIDE = ("", "-wal", "-shm", "-journal", "-deliver.lock")


def make_private(path: str) -> None:
    """Make the folder and the file at *path* for their owner alone, where they are not there.

    SQLite gives the log beside a file the rights of the file itself.
    """
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whatever else stands in the way, SQLite says it when it opens the file.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def keep_private(path: str) -> None:
    """Take a file that is there from others. Only once SQLite has opened it: a mistyped path may be any file."""
    told = False
    for suffix in _BESIDE:
        with contextlib.suppress(OSError):
            told = _tighten(Path(f"{os.path.realpath(path)}{suffix}"), quietly=told) or told


def _tighten(path: Path, *, quietly: bool) -> bool:
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    wanted = private_mode(mode)
    if mode == wanted or found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        return False
    path.chmod(wanted)
    if not quietly:  # what lies beside a file has its rights
        log.warning("%s could be read by other users (%04o); from now on it is %04o", path, mode, wanted)
    return True


def private_mode(mode: int) -> int:
    """*mode* without the rights of others, and of the group unless it may write.

    To read a file in WAL mode is to write beside it: a group that may only read has its rights by accident, one that
    may write was given them on purpose.
    """
    return mode & ~0o007 if mode & 0o020 else mode & ~0o077
