"""Which schema does a database have, and which does this hooklane want? Looked at without changing anything."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

from hooklane.config import Settings
from hooklane.errors import StoreRefused, needing
from hooklane.store.sql.migration_files import migrations_of, statements_of
from hooklane.store.sqlite import database


def versions(db: str) -> tuple[int, int]:
    """The schema version found in *db* (0 for none) and the one wanted."""
    return _of_sqlite(database.path_of(db)) if db.startswith("sqlite:") else asyncio.run(_of_postgres(db))


def bring_up_to_date(settings: Settings) -> None:
    """Migrate the schema, as every server does when it opens its store."""
    with needing("server"):
        from hooklane.cli.process import open_store
    store = open_store(settings)

    async def up() -> None:
        await store.open()
        await store.close()

    asyncio.run(up())


def pending(db: str, found: int) -> list[dict[str, Any]]:
    """The migrations that would follow after schema *found*: name, what it is about, how many statements."""
    if db.startswith("sqlite:"):
        from hooklane.store.sqlite.outbox.store import MIGRATIONS
    else:
        with needing("postgres"):
            from hooklane.store.postgres.outbox.publish_port import MIGRATIONS
    files = sorted(
        (entry for entry in resources.files(MIGRATIONS).iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return [
        {
            "name": entry.name.removesuffix(".sql"),
            "about": _about(script := entry.read_text("utf-8")),
            "statements": len(list(statements_of(script))),
        }
        for entry in files[found:]
    ]


def _about(script: str) -> str:
    """The first sentence of the comment at the top."""
    words = []
    for line in script.splitlines():
        if not line.startswith("--"):
            break
        words.append(line.removeprefix("--").strip())
    sentence, dot, _ = " ".join(words).partition(". ")
    return f"{sentence}." if dot else sentence


def _of_sqlite(path: str) -> tuple[int, int]:
    from hooklane.store.sqlite.outbox.store import COMPONENT, MIGRATIONS

    wanted = len(migrations_of(MIGRATIONS))
    if not Path(path).exists():
        return 0, wanted
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as conn:
            return database.version_of(conn, COMPONENT), wanted
    except sqlite3.DatabaseError as error:
        raise StoreRefused(f"{path} cannot be read: {error}") from None


async def _of_postgres(url: str) -> tuple[int, int]:
    with needing("postgres"):
        from hooklane.store.postgres.database import Database
        from hooklane.store.postgres.outbox.publish_port import COMPONENT, MIGRATIONS
        from hooklane.store.postgres.schema import version_of

    connected = Database(url, size=1)
    await connected.open()
    try:
        return await connected.read(lambda: version_of(COMPONENT)), len(migrations_of(MIGRATIONS))
    finally:
        await connected.close()
