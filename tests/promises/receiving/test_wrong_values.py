"""What an application gives wrongly is said when it is given, with what was expected, and not when it is needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.orm import scoped_session, sessionmaker
from tests.promises.receiving.kit import SECRET, outcome, signed

from hooklane import (
    Inbox,
    Outbox,
    Request,
    latest,
    profile_of,
    refetch,
    sequence,
    signature_scheme,
    token_scheme,
)
from hooklane.errors import ConfigError, StoreRefused, UsageError


def nothing(event: Any, tx: Any) -> None:
    pass


def source(**options: Any) -> Any:
    return Inbox("memory://").source("hooklane", [SECRET], **options)


def source_called(name: Any) -> Any:
    return Inbox("memory://").source(name, [SECRET], profile="hooklane")


def shop(**options: Any) -> Any:
    return profile_of("shop", scheme=token_scheme("X-Token"), **options)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a secret that is not set": (lambda: Inbox("memory://").source("stripe", secrets=None), "needs secrets="),
    "bytes": (lambda: Inbox("memory://").source("stripe", [b"x"]), "secret 1 of 1 must be text, got bytes"),  # type: ignore[list-item]
    "a rule that is not there": (lambda: source(retention=3), "no rule 'retention': known are .* retention_ms"),
    "words for a time": (lambda: source(payload_ms="30d"), "payload_ms is a whole number of at least 1, got '30d'"),
    "nothing at all": (lambda: source(body_bytes_max=0), "body_bytes_max is a whole number of at least 1, got 0"),
    "all at once": (lambda: source(retention_ms="x", tombstone_ms=-1), "retention_ms .*\n?.*tombstone_ms"),
    "a rate": (lambda: source(rate_limit="5/s"), "rate_limit is a positive number"),
    "a number for a policy": (lambda: source(retry=3), r"retry is a RetryPolicy\(…\), got 3"),
    "the same at a handler": (lambda: source().on("*", breaker=True), r"breaker is a BreakerPolicy\(…\), got True"),
    "an order that was not made": (lambda: source(order=latest), r"order is latest\(…\), sequence\(…\)"),
    "no parentheses": (lambda: source().on(nothing), r'as in @source.on\("order.\*"\)'),
    "a tie": (lambda: latest(on_tie="newest"), 'on_tie must be "id" or "refetch"'),  # type: ignore[arg-type]
    "a skew": (lambda: latest(skew_ms="5m"), "skew_ms must be a whole number"),  # type: ignore[arg-type]
    "a patience": (lambda: sequence(gap_timeout="5m"), "gap_timeout must be a positive number"),  # type: ignore[arg-type]
    "text for a tolerance": (lambda: source(tolerance_ms="300000"), "tolerance_ms is a whole number .*'300000'"),
    "no tolerance": (lambda: source(tolerance_ms=-1), "tolerance_ms is a whole number of milliseconds, at least 0"),
    "a number for an account": (lambda: source(account=7), "account is a name or a function of the message, got 7"),
    "a number for a place": (lambda: source(event_id=7), "a place is a path, header:name or a function .* got 7"),
    "a number among places": (lambda: source(key=["a", 7]), "a place is a path, header:name or a function .* got 7"),
    "an empty path": (lambda: source(event_type=""), "the path to a place is empty"),
    "patience without end": (lambda: sequence(gap_timeout=float("inf")), "gap_timeout .* at most 366 days, got inf"),
    "patience that is no number": (lambda: sequence(gap_timeout=float("nan")), "gap_timeout .* got nan"),
    "patience for a year and more": (lambda: sequence(gap_timeout=1e18), "gap_timeout .* at most 366 days"),
    "a number for a key": (lambda: sequence(key=7), "sequence: key is a path or a function .* got 7"),  # type: ignore[arg-type]
    "a number for a time": (lambda: latest(at=7), "latest: at is a path or a function .* got 7"),  # type: ignore[arg-type]
    "an empty key": (lambda: refetch(key=""), "refetch: key is a path or a function of the parsed event, got ''"),
    "one rank as text": (lambda: latest(ranks="created"), "ranks are several patterns of types, got 'created'"),
    "a lease": (lambda: Inbox("memory://", lease_ms=-1), "lease_ms is a whole number of at least 0, got -1"),
    "a name that is none": (lambda: source_called(None), "the name of a source .* got None"),
    "a list for a name": (lambda: source_called(["stripe"]), r"the name of a source .* got \['stripe'\]"),
    "a number for secrets": (lambda: Inbox("memory://").source("stripe", 7), "secrets is a secret or a list of them"),  # type: ignore[arg-type]
    "the word false": (lambda: source(unsafe="false"), "unsafe is True or False, got str"),
    "the same of what is learned": (lambda: source(learn="false"), "learn is True, False or a function .* got str"),
    "a number for a profile": (lambda: source(profile=7), "profile is the name of a profile or a Profile, got int"),
    "no URL": (lambda: source(url=7), "url is the URL given to the provider, got int"),
    "bytes for a token": (lambda: source(verify_token=b"hush"), r"verify_token is text, got bytes\Z"),
    "text for certificates": (lambda: source(certificates="x"), "certificates is a function .* got str"),
    "text for roots": (lambda: source(roots="x"), "roots is certificates in PEM, as bytes, got str"),
    "an endless rate": (lambda: source(rate_limit=float("inf")), "rate_limit is a positive number"),
    "a handler's name": (lambda: source().on("*", name=7), "the name of a handler is 1-.* got 7"),
    "a name no store keeps": (lambda: source().on("*", name="a\0b"), "the name of a handler is 1-.* printable"),
    "no ranks": (lambda: latest(ranks=None), "ranks are several patterns of types, got None"),  # type: ignore[arg-type]
    "a clock": (lambda: Inbox("memory://", clock=None), "clock is a function, got None"),  # type: ignore[arg-type]
    "a sink": (lambda: Inbox("memory://", emit=7), "emit is a function, got 7"),  # type: ignore[arg-type]
    "chance": (lambda: Inbox("memory://", roll=0.5), "roll is a function, got 0.5"),  # type: ignore[arg-type]
    "a failpoint": (lambda: Inbox("memory://", failpoint="x"), "failpoint is a function, got 'x'"),  # type: ignore[arg-type]
    "no connections": (lambda: Inbox(lambda: None), "makes connections, and gave a NoneType"),
    "no address": (lambda: Outbox(None), "events are kept at sqlite:///.* got None"),  # type: ignore[arg-type]
    "a path": (lambda: Outbox(Path("app.db")), "events are kept at sqlite:///.* got PosixPath"),  # type: ignore[arg-type]
    "no tenant": (lambda: Outbox("sqlite:///o.db", tenant=None), "no tenant can have the id None"),  # type: ignore[arg-type]
    "a scheme that is none": (lambda: profile_of("shop", scheme="hmac"), r"a scheme is a .* got 'hmac'"),  # type: ignore[arg-type]
    "one path as several": (lambda: shop(volatile="data.at"), "volatile are several paths, got 'data.at'"),
    "a number for a batch": (lambda: shop(batch=7), "batch is the path to the items, got 7"),
    "a number for a budget": (lambda: shop(budget=7), r"budget is a Budget\(…\), got 7"),
    "a number for a header": (lambda: token_scheme(7), "header is text, got 7"),  # type: ignore[arg-type]
    "a header that is not set": (lambda: signature_scheme(None), "header is text, got None"),  # type: ignore[arg-type]
    "a wait": (lambda: Inbox("memory://", inline_wait_ms=-1), "inline_wait_ms is a whole number of at least 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_value_is_refused_with_what_was_expected(what: str) -> None:
    give, expected = WRONG[what]
    with pytest.raises(UsageError, match=f"(?s){expected}"):
        give()


def test_a_word_for_future_times_that_is_not_there_is_refused() -> None:
    conn = sqlite3.connect(":memory:")
    with pytest.raises(UsageError, match='future must be "raise" or "skip"'):
        latest.apply(conn, "cars", key={"id": 1}, at=1, set={"speed": 1}, future="drop")
    conn.close()


def test_a_request_may_have_a_dict_of_headers_and_must_have_bytes() -> None:
    inbox = Inbox("memory://")
    inbox.source("hooklane", [SECRET]).on("*")(nothing)
    good = signed()
    shaped: Any = Request("post", good.url, dict(good.headers), bytearray(good.body))  # type: ignore[arg-type]
    assert outcome(inbox.receive(shaped)) == "stored"
    with pytest.raises(UsageError, match="raw bytes as they came, got str"):
        inbox.receive(Request("POST", good.url, good.headers, good.body.decode()))  # type: ignore[arg-type]


def test_what_is_wrong_with_a_source_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError) as raised:
        source(retention_ms="x", payload_ms="y")
    assert len(raised.value.problems) == 2


@pytest.mark.parametrize("make", [Inbox, Outbox])
def test_a_database_in_the_memory_of_each_connection_is_refused(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreRefused, match="name a file"):
        make("sqlite:///:memory:")

    assert list(tmp_path.iterdir()) == []


def in_memory(**options: Any) -> Any:
    return create_engine("sqlite://", **options)


LONELY: dict[str, Callable[[], Any]] = {
    "engine": in_memory,
    "engine with one connection": lambda: in_memory(poolclass=StaticPool),
    "sessionmaker": lambda: sessionmaker(in_memory()),
    "scoped session": lambda: scoped_session(sessionmaker(in_memory())),
    "function": lambda: lambda: sqlite3.connect(":memory:"),
}


@pytest.mark.parametrize("kind", LONELY)
def test_an_applications_own_database_in_the_memory_of_one_connection_is_refused(kind: str) -> None:
    """Naive: it is taken. Each thread has a database of its own then, and what one answered 200 for is never seen."""
    with pytest.raises(StoreRefused, match="name a file, or give an inbox for tests memory://"):
        Inbox(LONELY[kind]())


def test_an_engine_that_gives_one_connection_to_all_threads_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/app.db", poolclass=StaticPool)
    for where in (engine, sessionmaker(engine)):
        with pytest.raises(StoreRefused, match="StaticPool of this engine gives one connection to everybody"):
            Inbox(where)


@pytest.mark.parametrize("make", [Inbox, Outbox])
@pytest.mark.parametrize("url", ["sqlite:///app.db?mode=ro", "sqlite:///what?.db", "sqlite:///?x"])
def test_a_question_mark_in_the_address_of_a_file_does_not_make_another_file(make, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreRefused, match="no parameters"):
        make(url)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "..", "", "a/b", "a b", "x" * 65])
def test_a_source_that_no_address_leads_to_is_refused(name):
    with pytest.raises(ConfigError, match="name of a source"):
        Inbox("memory://").source(name, unsafe=True, profile="github")


def test_a_source_whose_letters_are_percent_encoded_in_its_address_is_found():
    inbox = Inbox("memory://")
    inbox.source("größe", unsafe=True, profile="github")
    headers = (("x-github-event", "push"), ("x-github-delivery", "1"))

    assert inbox.receive(Request("POST", "/webhooks/gr%C3%B6%C3%9Fe", headers, b"{}")).status == 200
