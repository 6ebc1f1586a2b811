"""Who may read a database file? Its owner: it holds signing secrets and payloads."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("hooklane.store")

_BESIDE = ("", "-wal", "-shm", "-journal", "-deliver.lock")


def keep_private(path: str) -> None:
    """Make the folder and the file at *path* for their owner alone, or take a file of ours that is there from others.

    SQLite gives the log beside a file the rights of the file itself.
    """
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whatever else stands in the way, SQLite says it when it opens the file.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    for suffix in _BESIDE:
        with contextlib.suppress(OSError):
            _tighten(Path(f"{os.path.realpath(path)}{suffix}"))


def _tighten(path: Path) -> None:
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    wanted = private_mode(mode)
    if mode == wanted or found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        return
    path.chmod(wanted)
    log.warning("%s could be read by other users (%04o); from now on it is %04o", path, mode, wanted)


def private_mode(mode: int) -> int:
    """*mode* without the rights of others, and of the group unless it may write.

    To read a file in WAL mode is to write beside it: a group that may only read has its rights by accident, one that
    may write was given them on purpose.
    """
    return mode & ~0o007 if mode & 0o020 else mode & ~0o077
