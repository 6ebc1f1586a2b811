"""How does the schema `hooklane` come up to date? Numbered migrations, one migrator at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.sql.migration_files import check_version, due
from hooklane.store.sql.queries import queries_of

LOCK_WAIT = "15s"
TABLE_WAIT = "5s"
"""Shorter: every session that needs the table waits behind us for as long."""

_SQL = queries_of("hooklane.store.postgres")


def version_of(component: str) -> Flow[int]:
    """The schema version of *component* in this database; 0 when it has none. Needs no rights on an empty one."""
    ((table,),) = yield Statement(_SQL["schema_table"])
    if table is None:
        return 0
    rows = yield Statement(_SQL["schema_version"], {"component": component})
    return int(rows[0][0]) if rows else 0


def migrate_once(component: str, migrations: Sequence[str]) -> Flow[bool]:
    """Apply what is due, in the transaction that is open; False when nothing is."""
    yield Statement(_SQL["take_time"])
    yield Statement(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
    yield Statement(_SQL["schema_lock"])
    yield Statement(f"SET LOCAL lock_timeout = '{TABLE_WAIT}'")
    yield Statement(_SQL["create_schema"])
    yield Statement(_SQL["create_schema_table"])
    version = yield from version_of(component)
    check_version(version, component, len(migrations))
    if version == len(migrations):
        return False
    statements, version = due(version, migrations)
    for sql in statements:
        yield Statement(sql)
    yield Statement(_SQL["set_schema_version"], {"component": component, "version": version})
    return True
