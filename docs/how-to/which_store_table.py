"""Writes the table of what each store can do into which-store.md: `python docs/how-to/which_store_table.py`.

A test runs it too, so that page and code cannot drift apart.
"""

from __future__ import annotations

from pathlib import Path

from hooklane.store.dynamodb.store import by_url as dynamodb
from hooklane.store.inbox import Capabilities
from hooklane.store.memory.inbox import MemoryInbox
from hooklane.store.postgres.inbox.store import VERBS as POSTGRES
from hooklane.store.redis.store import by_url as redis
from hooklane.store.sqlite.inbox.store import SqliteInbox

PAGE = Path(__file__).with_name("which-store.md")
BEGIN, END = "<!-- begin: capabilities, written by which_store_table.py -->", "<!-- end: capabilities -->"
DAY_MS = 86_400_000


def stores() -> list[Capabilities]:
    """What each store says of itself; none of them is connected to."""
    return [
        MemoryInbox.capabilities,
        SqliteInbox.capabilities,
        POSTGRES.capabilities,
        redis("redis://localhost").capabilities,
        redis("redis+cluster://localhost").capabilities,
        dynamodb("dynamodb://inbox").capabilities,
    ]


def table() -> str:
    """The table in Markdown."""
    columns = stores()
    lines = {
        "one commit with the handler's writes (`atomic`)": [_yes(each.atomic) for each in columns],
        "outlives its process (`durable`)": [_yes(each.durable) for each in columns],
        "what was acknowledged outlives a failover": [_yes(each.survives_failover) for each in columns],
        "mode unless told": [each.mode for each in columns],
        "orders": [", ".join(each.orders) if len(each.orders) < 4 else "all" for each in columns],
        "duplicates by state (`state_token`)": [_yes(each.state_tokens) for each in columns],
        "`event.send` in the same commit": [_yes(each.outbox) for each in columns],
        "sync / async": [("sync" if each.sync else "") + (" + async" if each.native_async else "") for each in columns],
        "rows expire by themselves after": [_days(each.expires_ms) for each in columns],
        "longest body": [_bytes(each.payload_bytes_max) for each in columns],
    }
    head = ["", *(each.name for each in columns)]
    rows = [head, ["---"] * len(head), *([name, *cells] for name, cells in lines.items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _days(ms: int | None) -> str:
    return "never" if ms is None else f"{ms // DAY_MS} days"


def _bytes(number: int | None) -> str:
    return "yours to set" if number is None else f"{number:,} B"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
