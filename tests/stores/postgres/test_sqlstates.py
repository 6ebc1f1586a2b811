"""What PostgreSQL answers means the same in the pool, at the publish port and on a borrowed connection."""

import asyncpg
import psycopg
import pytest

from hooklane.errors import (
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from hooklane.store.postgres import driver_errors
from hooklane.store.postgres.outbox import publish_port
from hooklane.store.sql.faults import faults_named

MEANINGS = {
    "53100": StoreFull,
    "53300": StoreUnavailable,
    "57014": StoreUnavailable,
    "57P01": StoreUnavailable,
    "25006": StoreUnavailable,
    "25P03": StoreUnavailable,
    "08006": StoreUnavailable,
    "28000": StoreRefused,
    "42501": StoreRefused,
    "42P01": StoreRefused,
    "3F000": StoreRefused,
}


def of_asyncpg(code: str) -> Exception:
    error = asyncpg.PostgresError.get_message_class_for_sqlstate(code)("words")
    error.sqlstate = code
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(("code", "meaning"), MEANINGS.items())
def test_a_code_means_the_same_everywhere(code: str, meaning: type[StoreError]) -> None:
    with pytest.raises(StoreError) as in_the_pool, driver_errors.named():
        raise of_asyncpg(code)
    with pytest.raises(StoreError) as at_the_port, publish_port._named():
        raise psycopg.errors.lookup(code)("words")
    with pytest.raises(StoreError) as borrowed, faults_named("PostgreSQL"):
        raise psycopg.errors.lookup(code)("words")

    assert meaning is in_the_pool.type is at_the_port.type is borrowed.type
    assert str(in_the_pool.value) == str(at_the_port.value) == str(borrowed.value)


def test_a_lock_that_is_not_given_in_time_is_left_to_the_pools_caller_and_busy_elsewhere() -> None:
    with pytest.raises(asyncpg.LockNotAvailableError), driver_errors.named():
        raise of_asyncpg("55P03")
    with pytest.raises(StoreBusy), publish_port._named():
        raise psycopg.errors.lookup("55P03")("words")


@pytest.mark.parametrize("code", ["57P01", "08006"])
def test_a_session_that_ends_during_a_commit_leaves_its_outcome_open(code: str) -> None:
    with pytest.raises(driver_errors.Unknown), driver_errors.named(unknown=True):
        raise of_asyncpg(code)
    with pytest.raises(StoreError, match="during a commit") as at_the_port, publish_port._named(unknown=True):
        raise psycopg.errors.lookup(code)("words")

    assert at_the_port.type is StoreError, "no subclass, which would say that nothing was stored"


def test_a_standby_has_committed_nothing() -> None:
    with pytest.raises(StoreUnavailable), driver_errors.named(unknown=True):
        raise of_asyncpg("25006")
