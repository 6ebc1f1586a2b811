"""Which texts end the transaction that they are sent in is read as PostgreSQL reads them."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql as composed

from hooklane.store.caller.transaction_control import Ending, ending_of

ENDS = [
    "COMMIT",
    ";;commit",
    "eNd work",
    "select 1; commit",
    "SELECT 'it''s'; /* ; /* */ ' */ rOllBaCk -- ; '\n; begin",
    "select E'\\';' ; abort; begin",
    "select $a$ ; $$ ; $a$; commit",
    "select 1 as a$b; commit; --$b",
    "rollback and chain",
    "start transaction",
    "PREPARE TRANSACTION 'x'",
    "CLOSE ALL",
    'close "hooklane_guard"',
    "create function f() returns int begin atomic select case when true then 1 end; end; commit",
]
ENDS_NOTHING = [
    "SELECT 1",
    "SELECT CASE WHEN true THEN 1 END",
    "SELECT ';commit;', E'\\';commit;', $$;commit;$$, $x$;end;$$;$x$ -- ;commit\n /* ;commit /* ;end */ ;abort */",
    'SELECT 1 AS "; commit"; SELECT 2 AS "commit"',
    "SAVEPOINT a; ROLLBACK TO a; ROLLBACK WORK TO SAVEPOINT a; RELEASE a",
    "CREATE FUNCTION pg_temp.f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END",
    "DECLARE c CURSOR FOR SELECT 1; CLOSE c",
    "PREPARE hooklane_p AS SELECT 1; DEALLOCATE hooklane_p",
]


@pytest.mark.parametrize("text", ENDS)
def test_what_ends_a_transaction_is_found_in_every_spelling(text: str) -> None:
    assert ending_of(text) is Ending.CONTROL


def test_a_rollback_alone_is_told_apart() -> None:
    assert {ending_of(text) for text in ("ROLLBACK", " rollback;", "/* */ abort work ;")} == {Ending.ROLLBACK}


def test_what_ends_nothing_is_let_through_as_the_database_lets_it(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as conn:
        for text in ENDS_NOTHING:
            assert ending_of(text) is Ending.NONE, text
            conn.execute(composed.SQL(text))  # type: ignore[arg-type]
            assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS, text
