"""F56: the database is dumped and restored, or upgraded, in the middle of the load."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.faults.crash.moving import dump, run, upgrade
from tests.support.leftovers import scratch_folder
from tests.support.postgres import PostgresServer, installations

NEWEST, OLDEST = installations()[0], installations()[-1]


@pytest.fixture
def make_server() -> Iterator[Callable[..., PostgresServer]]:
    made: list[PostgresServer] = []
    with scratch_folder(in_memory=True) as folder:

        def make(installation) -> PostgresServer:
            place = folder / str(len(made))
            place.mkdir()
            made.append(PostgresServer(installation, place, durable=False))
            return made[-1]

        yield make
        for server in made:
            server.close()


@pytest.mark.parametrize(
    ("move", "old"),
    [
        pytest.param(dump, NEWEST, id="dump-and-restore"),
        pytest.param(dump, OLDEST, id="dump-from-the-oldest", marks=pytest.mark.soak),
        pytest.param(
            *(upgrade, OLDEST),
            id="pg_upgrade",
            marks=[
                pytest.mark.soak,
                pytest.mark.skipif(OLDEST == NEWEST, reason="pg_upgrade needs two versions of PostgreSQL"),
            ],
        ),
    ],
)
async def test_f56_a_database_that_moves_under_load_loses_reorders_and_copies_nothing(make_server, move, old) -> None:
    report = await run(make_server(old), make_server(NEWEST), move)

    assert report.seen is not None
    assert report.seen.violations == ()
    assert (report.seen.lost, report.seen.reordered, report.seen.duplicates) == (0, 0, 0)
    assert report.ledger["balanced"]
    assert report.events > report.before
