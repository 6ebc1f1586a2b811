"""The traps stand on the same worlds as the inbox."""

from tests.inbox.conftest import postgres_world, sql_world, sqlite_world, world

__all__ = ["postgres_world", "sql_world", "sqlite_world", "world"]
