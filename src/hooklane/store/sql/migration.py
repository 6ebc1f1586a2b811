"""How does the inbox's schema come up to date over any connection? One numbered migration per transaction."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.store.caller import Dialect, Flow, Statement
from hooklane.store.postgres import schema as postgres
from hooklane.store.sqlite import database as sqlite

_SQLITE_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'hooklane_schema'"
_SQLITE_CREATE = (
    "CREATE TABLE IF NOT EXISTS hooklane_schema (component TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT"
)
_SQLITE_VERSION = "SELECT version FROM hooklane_schema WHERE component = :component"
_SQLITE_SET = (
    "INSERT INTO hooklane_schema VALUES (:component, :version)"
    " ON CONFLICT (component) DO UPDATE SET version = excluded.version"
)


def next_migration(dialect: Dialect, component: str, package: str) -> Flow[bool]:
    """Apply the next migration in the open transaction; False when the schema is up to date."""
    migrations = sqlite.migrations_of(package)
    if dialect is Dialect.SQLITE:
        return (yield from _sqlite(component, migrations))
    # A database that is up to date needs no rights beyond reading.
    version = yield from postgres.version_of(component)
    postgres.check_version(version, component, len(migrations))
    if version == len(migrations):
        return False
    return (yield from postgres.migrate_once(component, migrations))


def _sqlite(component: str, migrations: Sequence[str]) -> Flow[bool]:
    version = 0
    if (yield Statement(_SQLITE_TABLE)):
        rows = yield Statement(_SQLITE_VERSION, {"component": component})
        version = int(rows[0][0]) if rows else 0
    postgres.check_version(version, component, len(migrations))
    if version == len(migrations):
        return False
    yield Statement(_SQLITE_CREATE)
    for statement in sqlite.statements_of(migrations[version]):
        yield Statement(statement)
    yield Statement(_SQLITE_SET, {"component": component, "version": version + 1})
    return True
