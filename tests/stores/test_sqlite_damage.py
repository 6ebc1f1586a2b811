"""What is found of a damaged SQLite file, and when: at the start, or by `hooklane doctor`."""

import os
import sqlite3
from pathlib import Path

import pytest

from hooklane.errors import StoreRefused
from hooklane.store.sqlite.database import CHECKED_BYTES_MAX, check, connect
from hooklane.store.sqlite.examine import examine

PAGE = 4096


def file_of(folder: Path, size: int) -> Path:
    """A database whose one row fills so many bytes."""
    path = folder / "outbox.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE t (data BLOB)")
        conn.execute("INSERT INTO t VALUES (zeroblob(?))", (size,))
    conn.close()
    path.chmod(0o600)
    return path


def damage_in_the_middle(path: Path) -> None:
    """A page of the row that names another as the next than it did."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // PAGE // 2 * PAGE)
        file.write(b"\xff" * 4)


def checked(path: Path) -> None:
    conn = connect(str(path), busy_wait_ms=100)
    try:
        check(conn, str(path))
    finally:
        conn.close()


def test_a_small_file_is_read_to_its_end_before_anything_is_built_on_it(tmp_path: Path):
    path = file_of(tmp_path, 1 << 20)
    damage_in_the_middle(path)

    with pytest.raises(StoreRefused, match="is damaged"):
        checked(path)


def test_a_large_file_that_was_cut_short_is_refused(tmp_path: Path):
    path = file_of(tmp_path, CHECKED_BYTES_MAX)
    os.truncate(path, path.stat().st_size - PAGE)

    with pytest.raises(StoreRefused, match="damaged"):
        checked(path)


def test_a_large_file_is_read_to_its_end_by_the_doctor_alone(tmp_path: Path):
    path = file_of(tmp_path, CHECKED_BYTES_MAX)
    damage_in_the_middle(path)

    checked(path)

    assert examine(str(path), thorough=True).problem is not None
