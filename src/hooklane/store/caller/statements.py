"""What is asked of a caller's connection: the named statements of `queries.sql`."""

from __future__ import annotations

from hooklane.store.caller.flow import Statement
from hooklane.store.caller.transaction_control import GUARD, REFUSAL
from hooklane.store.sql.queries import queries_of

STATEMENTS = {
    name: Statement(text)
    for name, text in queries_of("hooklane.store.caller", guard=GUARD, refusal=f"'{REFUSAL}'").items()
}
