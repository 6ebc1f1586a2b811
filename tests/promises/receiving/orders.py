"""An application's file: orders of which each may be there once, and lines whose parts are asked for at the commit."""

import sqlite3
from pathlib import Path


def made_in(folder: Path) -> str:
    """The path of a new one."""
    with sqlite3.connect(folder / "app.db") as conn:
        conn.execute("CREATE TABLE orders (id TEXT UNIQUE ON CONFLICT ROLLBACK)")
        conn.execute("CREATE TABLE lines (id TEXT REFERENCES parts (id) DEFERRABLE INITIALLY DEFERRED)")
        conn.execute("CREATE TABLE parts (id TEXT PRIMARY KEY)")
    conn.close()
    return str(folder / "app.db")


def ids(path: str) -> list[str]:
    """Of its orders."""
    conn = sqlite3.connect(path)
    try:
        return [id for (id,) in conn.execute("SELECT id FROM orders ORDER BY id")]
    finally:
        conn.close()
