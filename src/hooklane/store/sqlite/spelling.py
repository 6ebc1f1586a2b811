"""How does SQLite spell a statement that both SQL back-ends run? Their texts are written as PostgreSQL reads them."""

from __future__ import annotations

import re

_LIST = re.compile(r"= ANY\(:(\w+)::\w+\[\]\)")
_CAST = re.compile(r"::\w+(?:\[\])?")


def in_sqlite(statement: str) -> str:
    """*statement* for SQLite: tables without a schema, lists as JSON, and parameters that need no type."""
    statement = statement.replace("hooklane.", "hooklane_")
    statement = _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", statement)
    return _CAST.sub("", statement)
