"""Where SQL is written: in `.sql` files beside the store that runs it, each statement with a name and a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hooklane

SOURCE = Path(hooklane.__file__).parent
# What begins, ends or configures a transaction or a session is the business of the shell that does it, and no statement
# of the store: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET, PRAGMA.
STATEMENT = re.compile(
    r"\bSELECT\s+(?:[\w(*':$]|\Z)|\bINSERT\s+INTO\b|\bUPDATE\s+[\w.\"{}]+\s+SET\b|\bDELETE\s+FROM\b"
    r"|\bCREATE\s+(?:TABLE|INDEX|SCHEMA|VIEW|FUNCTION)\b|\bVACUUM\s*\("
)
BUILDERS = {
    "receiver/fields.py": "statements about the user's own tables, whose names and columns only the user knows",
    "cli/bench_scratch.py": "the one table of a scratch database, whose commits are counted and which is then removed",
    "testing/play/ours.py": "the table of a sample application, which no store of ours knows",
    "store/sqlite/spelling.py": "how SQLite asks for a list, put into the statements that both back-ends run",
    "store/sqlite/rows.py": "one row's INSERT, read from its file, is repeated for as many rows as there are",
}
"""The only modules that put statements together, and why."""
FILES = sorted(file for file in SOURCE.rglob("*.sql") if file.parent.name != "migrations")


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The text constants of a module, but for its docstrings."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_no_module_holds_sql() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text[:60]!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in BUILDERS
        for line, text in texts(ast.parse(path.read_text("utf-8")))
        if STATEMENT.search(text)
    ]

    assert not found, "SQL belongs into a named statement of a .sql file:\n" + "\n".join(found)


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_builder_is_named_only_while_it_builds(builder: str) -> None:
    assert any(STATEMENT.search(text) for _, text in texts(ast.parse((SOURCE / builder).read_text("utf-8"))))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE / "store")))
def test_every_statement_says_why_it_is_there(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    named = [at for at, line in enumerate(lines) if line.startswith("-- name: ")]

    silent = [lines[at] for at in named if not re.match(r"-- \S+ \S", (lines[at + 1 : at + 2] or [""])[0])]

    assert named
    assert silent == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE / "store")))
def test_a_column_that_is_never_read_is_never_written(file: Path) -> None:
    """Eight statements wrote `closed_at` of a dead letter, each as it saw fit, and none read it. As many wrote who had
    claimed a handling, which no answer, list or command has ever shown: the lease and the fence are what counts."""
    text, is_of_inbox = file.read_text("utf-8"), "inbox" in str(file.relative_to(SOURCE / "store"))

    assert "closed_at" not in text
    assert not is_of_inbox or not re.search(r"\bowner\b", text)
