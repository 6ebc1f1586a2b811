"""What gets in a handler's way: a rival session that makes it a deadlock victim, and errors of every code."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
from tests.support.pace import scaled_s

ACCOUNTS = "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL DEFAULT 0); INSERT INTO account VALUES (1), (2)"
QUICK_TO_SEE = "SET LOCAL deadlock_timeout = '20ms'"
FIRST = "UPDATE account SET n = n + 1 WHERE id = 1"
SECOND = "UPDATE account SET n = n + 1 WHERE id = 2"


class Rival:
    """Holds the second account and then wants the first: a handler that does it in the other order is the victim,
    because it looks for a deadlock at once and the rival never does."""

    def __init__(self, url: str) -> None:
        self._url = url
        with psycopg.connect(url) as conn:
            conn.execute(ACCOUNTS)
        self._conn = psycopg.connect(url, autocommit=True)
        self._conn.execute("SET deadlock_timeout = '10min'")
        self._conn.execute("BEGIN")
        self._conn.execute(SECOND)
        self._crossing: threading.Thread | None = None

    def cross(self) -> None:
        """Want what the handler has, and come back when the rival waits for it; the first time only."""
        if self._crossing is not None:
            return
        self._crossing = threading.Thread(target=self._cross, daemon=True)
        self._crossing.start()
        with psycopg.connect(self._url, autocommit=True) as conn:
            deadline = time.monotonic() + scaled_s(30)
            while not self._waits(conn):
                assert time.monotonic() < deadline, "the rival should wait for the handler"
                time.sleep(0.01)

    def _cross(self) -> None:
        self._conn.execute(FIRST)
        self._conn.execute("COMMIT")

    def _waits(self, conn: Any) -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
        return bool(conn.execute(waiting, (self._conn.info.backend_pid,)).fetchone()[0])

    def close(self) -> None:
        if self._crossing is not None:
            self._crossing.join(scaled_s(30))
        self._conn.close()


def raising(code: str) -> str:
    """A statement that PostgreSQL answers with *code*."""
    return f"DO $$ BEGIN RAISE EXCEPTION 'as if it were real' USING ERRCODE = '{code}'; END $$"
