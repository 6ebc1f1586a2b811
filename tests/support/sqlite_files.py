"""SQLite files that have our tables already, as after a first start: to make them takes longer than most tests."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hooklane.core.fanout import places
from hooklane.store.open import outbox_store
from hooklane.store.open_inbox import open_inbox
from hooklane.store.outbox import StoreOptions


def new_outbox_file(path: Path) -> str:
    """The URL of a new file with the tables of an outbox."""
    return _write(path, _copy(_make_outbox))


def new_application_file(path: Path) -> str:
    """The URL of a new file with an application's table of effects and the tables of an inbox."""
    return _write(path, _copy(_make_application))


def _write(path: Path, content: bytes) -> str:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return f"sqlite:///{path}"


@cache
def _copy(make: Callable[[Path], None]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        make(path)
        assert sorted(each.name for each in path.parent.glob("made.db-*")) in ([], ["made.db-lock"])
        return path.read_bytes()


def _make_outbox(path: Path) -> None:
    async def opened_and_closed() -> None:
        store = outbox_store(f"sqlite:///{path}", StoreOptions(placer=places))
        await store.open()
        await store.close()

    # In a loop of its own, since a fixture may ask from within one.
    thread = threading.Thread(target=lambda: asyncio.run(opened_and_closed()))
    thread.start()
    thread.join()


def _make_application(path: Path) -> None:
    path.touch(mode=0o600)
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("CREATE TABLE effects (n INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT)")
    conn.commit()
    conn.close()
    open_inbox(f"sqlite:///{path}").close()
