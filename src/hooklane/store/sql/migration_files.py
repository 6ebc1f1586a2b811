"""The numbered migrations of a component, as files: which are due, and what are their statements?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from hooklane.errors import StoreRefused


def migrations_of(package: str) -> list[str]:
    """The numbered `NNNN_name.sql` files of *package*, in order."""
    files = (entry for entry in resources.files(package).iterdir() if entry.name.endswith(".sql"))
    return [entry.read_text("utf-8") for entry in sorted(files, key=lambda entry: entry.name)]


def check_version(version: int, component: str, newest: int, where: str = "the database") -> None:
    """Refuse what a newer hooklane has made."""
    if version > newest:
        raise StoreRefused(
            f"{where} has {component} schema {version}, newer than this hooklane's {newest}:"
            " upgrade hooklane, the data was not touched"
        )


def due(version: int, migrations: Sequence[str]) -> tuple[list[str], int]:
    """The statements of the next transaction, and the version to which they lead.

    One migration at a time, so that a table in use is not held for longer than one of them takes. Where there are no
    tables yet, no session can wait for them, and all are made at once: each commit would wait for the disk.
    """
    newest = version + 1 if version else len(migrations)
    return [statement for script in migrations[version:newest] for statement in statements_of(script)], newest


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
