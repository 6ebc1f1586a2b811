"""How does the schema `hooklane` come up to date? Numbered migrations, one transaction each, one migrator at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from hooklane.errors import StoreRefused
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.sql.queries import queries_of

LOCK_WAIT = "15s"
TABLE_WAIT = "5s"
"""Shorter: every session that needs the table waits behind us for as long."""

_SQL = queries_of("hooklane.store.postgres")


def migrations_of(package: str) -> list[str]:
    """The numbered `NNNN_name.sql` files of *package*, in order."""
    files = (entry for entry in resources.files(package).iterdir() if entry.name.endswith(".sql"))
    return [entry.read_text("utf-8") for entry in sorted(files, key=lambda entry: entry.name)]


def version_of(component: str) -> Flow[int]:
    """The schema version of *component* in this database; 0 when it has none. Needs no rights on an empty one."""
    ((table,),) = yield Statement(_SQL["schema_table"])
    if table is None:
        return 0
    rows = yield Statement(_SQL["schema_version"], {"component": component})
    return int(rows[0][0]) if rows else 0


def check_version(version: int, component: str, newest: int) -> None:
    if version > newest:
        raise StoreRefused(
            f"the database has {component} schema {version}, newer than this hooklane's {newest}:"
            " upgrade hooklane, the data was not touched"
        )


def migrate_once(component: str, migrations: Sequence[str]) -> Flow[bool]:
    """Apply the next migration, in the transaction that is open; False when there is none."""
    yield Statement(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
    yield Statement(_SQL["schema_lock"])
    yield Statement(f"SET LOCAL lock_timeout = '{TABLE_WAIT}'")
    yield Statement(_SQL["create_schema"])
    yield Statement(_SQL["create_schema_table"])
    version = yield from version_of(component)
    check_version(version, component, len(migrations))
    if version == len(migrations):
        return False
    for sql in statements_of(migrations[version]):
        yield Statement(sql)
    yield Statement(_SQL["set_schema_version"], {"component": component, "version": version + 1})
    return True


def statements_of(script: str) -> Iterator[str]:
    """The statements of a script one by one, since a prepared statement holds only one. A body between $$ is whole."""
    statement: list[str] = []
    in_body = False
    for line in script.splitlines():
        code = line.partition("--")[0].rstrip()
        if not code and not in_body:
            continue
        statement.append(code)
        in_body ^= code.count("$$") % 2 == 1
        if code.endswith(";") and not in_body:
            yield "\n".join(statement)
            statement = []
    if statement:
        raise StoreRefused(f"a migration ends in the middle of a statement: {statement[0][:80]!r}")
