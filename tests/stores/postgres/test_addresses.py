"""A URL with a password that was not escaped: drivers would quote it, so they are not given it."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from hooklane import Inbox, Outbox
from hooklane.errors import StoreRefused, StoreUnavailable
from hooklane.store.postgres.address import check_address
from hooklane.store.postgres.inbox.connections import AsyncpgConnections

PASSWORDS = [
    *("TOP%zzSECRET", "TOP%00SECRET", "TOP SECRET", "TOP@SECRET"),
    *("TOP/SECRET", "12/SECRET"),
]


def look_into_the_inbox(url: str) -> None:
    with Inbox(url) as inbox:
        inbox.stats()


def publish(url: str) -> None:
    Outbox(url).publish("order.created", {})


@pytest.mark.parametrize("use", [look_into_the_inbox, publish])
@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_that_was_not_escaped_is_not_told(password: str, use: Callable[[str], Any]) -> None:
    with pytest.raises(StoreRefused, match="in a password, write / as %2F") as refused:
        use(f"postgresql://me:{password}@127.0.0.1:1/shop")

    told = "".join(traceback.format_exception(refused.value, chain=True))
    lines = [line for line in told.splitlines() if not line.startswith("    ")]  # lines of source
    assert not any(word in line for line in lines for word in ("TOP", "SECRET"))


@pytest.mark.parametrize("password", ["TOP#SECRET", "TOP?SECRET"])
async def test_a_password_that_one_driver_reads_and_the_other_does_not_is_not_told_either(password: str) -> None:
    url = f"postgresql://me:{password}@127.0.0.1:1/shop"
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        publish(url)
    connections = AsyncpgConnections(url)
    with pytest.raises(StoreRefused, match="in a password, write / as %2F") as refused:
        await connections.check_out(1_000)

    assert not any(word in str(refused.value) for word in ("TOP", "SECRET"))


@pytest.mark.parametrize("use", [look_into_the_inbox, publish])
def test_an_address_without_an_end_is_refused_without_its_password(use: Callable[[str], Any]) -> None:
    with pytest.raises(StoreRefused, match=r"me:\*\*\*@\[::1/shop: this URL cannot be read"):
        use("postgresql://me:SECRET@[::1/shop")


@pytest.mark.parametrize("use", [look_into_the_inbox, publish])
def test_a_setting_that_postgresql_does_not_have_is_named(use: Callable[[str], Any]) -> None:
    with pytest.raises(StoreRefused, match=r"me:[*]{3}@127\.0\.0\.1:1/shop: PostgreSQL has no parameter 'sslmod'"):
        use("postgresql://me:SECRET@127.0.0.1:1/shop?sslmod=require")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:a%2Fb%40c%25@127.0.0.1:5432/shop",
        "postgresql://me:secret@one:5432,two:5433/shop?target_session_attrs=read-write",
        "postgresql:///shop?host=/run/postgresql&user=me@server",
        "postgresql://[::1]:5432/shop",
        "postgresql://%2Frun%2Fpostgresql/shop",
        "postgresql://",
    ],
)
def test_every_other_spelling_is_taken(url: str) -> None:
    check_address(url)


def test_a_server_that_is_away_is_told_as_ever() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        publish("postgresql://me:secret@127.0.0.1:1/shop")
