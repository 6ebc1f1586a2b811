"""How does the inbox's schema come up to date over any connection?"""

from __future__ import annotations

from functools import cache

from hooklane.store.caller import Dialect, Flow, Statement
from hooklane.store.postgres import schema as postgres
from hooklane.store.sql.migration_files import check_version, due, migrations_of
from hooklane.store.sql.queries import queries_of

_SQLITE = queries_of("hooklane.store.sqlite")


@cache
def newest_of(package: str) -> int:
    """The version to which the migrations of *package* lead."""
    return len(migrations_of(package))


def version_of(dialect: Dialect, component: str) -> Flow[int]:
    """The schema version of *component* in this database; 0 when it has none. Needs no rights beyond reading."""
    if dialect is Dialect.POSTGRESQL:
        return (yield from postgres.version_of(component))
    if not (yield Statement(_SQLITE["schema_table"])):
        return 0
    rows = yield Statement(_SQLITE["schema_version"], {"component": component})
    return int(rows[0][0]) if rows else 0


def next_migration(dialect: Dialect, component: str, package: str) -> Flow[bool]:
    """Apply what is due in the open transaction; False when the schema is up to date."""
    migrations = migrations_of(package)
    version = yield from version_of(dialect, component)
    check_version(version, component, len(migrations))
    if version == len(migrations):
        return False
    if dialect is Dialect.POSTGRESQL:
        return (yield from postgres.migrate_once(component, migrations))
    yield Statement(_SQLITE["create_schema_table"])
    statements, version = due(version, migrations)
    for statement in statements:
        yield Statement(statement)
    yield Statement(_SQLITE["set_schema_version"], {"component": component, "version": version})
    return True
