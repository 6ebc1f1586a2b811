"""A password in the address of a database is shown to nobody, however it is spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.model.database_url import shown

PASSWORD = "s3cr3t-W0rd"
WITH_PASSWORD = [
    "postgresql://user:{}@host:5432/name",
    "postgres://user:{}@host/name?sslmode=require",
    "postgresql+asyncpg://user:{}@h1:1,h2:2/name",
    "postgresql://host/name?user=u&password={}",
    "postgresql://host/name?password={}&sslmode=require",
    "postgresql://host/name?PASSWORD={}",
    "postgresql://host/name?sslpassword={}",
    "postgresql://user:{}@host/name?password={}",
    "postgresql://user:a/b@c#d?{}@host/name",
    "host=h user=u password={} dbname=n",
    "password='{} with \\' a quote' host=h",
    "password = {}",
    "redis://:{}@host:6379/0",
    "rediss://user:{}@host",
    "redis+cluster://user:{}@a:1,b:2",
    "mysql://root:{}@host/x",
]


@pytest.mark.parametrize("address", WITH_PASSWORD)
def test_an_address_is_shown_without_its_password(address: str):
    assert PASSWORD in address.format(PASSWORD, PASSWORD)

    assert PASSWORD not in shown(address.format(PASSWORD, PASSWORD))


@pytest.mark.parametrize(
    "address",
    ["sqlite:///data/app.db", "postgresql://host/name", "postgresql://user@host/name?sslmode=require", "memory://"],
)
def test_an_address_without_a_password_is_shown_as_it_is(address: str):
    assert shown(address) == address


def test_what_is_no_password_stays_readable():
    assert shown("postgresql://app:x@db.internal:5432/shop?sslmode=require") == (
        "postgresql://app:***@db.internal:5432/shop?sslmode=require"
    )


@given(st.text(min_size=6).filter(lambda text: "***" not in text and not text.isspace()))
def test_no_password_gets_through_a_url(password: str):
    marked = f"{password}"
    found = shown(f"postgresql://user:{marked}@host/name")

    assert found.startswith("postgresql://user:***@host/name")
