"""Secrets at rest: sealed in every back-end, opened by what delivers, and by nothing without the key."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.eventually import eventually
from tests.support.http_client import Connection
from tests.support.processes import Child, free_port
from tests.support.receiver import Answer, Sink

from hooklane.cli import process
from hooklane.cli.main import run
from hooklane.cli.process import running
from hooklane.config import Secret, Settings
from hooklane.core.fanout import places
from hooklane.errors import SecretsSealed
from hooklane.model.clock import START
from hooklane.model.endpoint import SigningKey
from hooklane.model.tenant import Tenant
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.store.sealed_outbox import SealedOutbox, key_ids, opened, sealed
from hooklane.store.sealing import SealKeys, key_id
from hooklane.testing.conformance_outbox import OutboxConformance
from hooklane.testing.conformance_outbox.kit import endpoint
from hooklane.testing.conformance_recovery.kit import act

OLD, NEW = b"o" * 32, b"n" * 32
API_KEY = "test-key-0123456789"
SECRET = "whsec_" + base64.b64encode(b"canary-secret-0123456789abc").decode()
CANARIES = (SECRET, "canary-header", "canary-query")
FULL = replace(
    endpoint(),
    url="https://a.example/hook?token=canary-query",
    keys=(SigningKey(SECRET),),
    headers=(("X-Token", "canary-header"),),
)


class TestSealedMemory(OutboxConformance):
    """A store whose secrets are sealed keeps every promise that it keeps without."""

    @pytest.fixture
    async def store(self) -> Any:
        return SealedOutbox(MemoryOutbox(StoreOptions(placer=places)), SealKeys([NEW]))  # type: ignore[arg-type]


@given(st.text(), st.text())
def test_what_was_sealed_opens_in_its_own_place_and_nowhere_else(text: str, place: str):
    keys = SealKeys([OLD])
    kept = keys.seal(text, place)

    assert keys.open(kept, place) == SealKeys([NEW, OLD]).open(kept, place) == text
    assert keys.seal(text, place) != kept
    with pytest.raises(SecretsSealed, match="does not open"):
        keys.open(kept, place + "x")


@pytest.mark.parametrize("broken", [lambda kept: kept[:-4], lambda kept: kept[:-4] + "AAAA", lambda kept: kept + "!"])
def test_a_sealed_text_that_was_changed_is_an_error_and_never_garbage(broken: Callable[[str], str]):
    keys = SealKeys([OLD])

    with pytest.raises(SecretsSealed):
        keys.open(broken(keys.seal("a secret", "here")), "here")


def test_a_key_that_is_missing_or_wrong_is_named():
    kept = SealKeys([OLD]).seal("a secret", "here")

    with pytest.raises(SecretsSealed, match=f"sealed with the key '{key_id(OLD)}', and no key is given"):
        SealKeys().open(kept, "here")
    with pytest.raises(SecretsSealed, match=f"the keys given are {key_id(NEW)}"):
        SealKeys([NEW]).open(kept, "here")


def test_all_secrets_of_an_endpoint_are_sealed_and_a_token_stays_with_its_host():
    keys = SealKeys([OLD])
    kept = sealed(FULL, keys)

    assert not [canary for canary in CANARIES if canary in repr(kept) + str([kept.keys[0].secret, *kept.headers])]
    assert key_ids(kept) == {key_id(OLD)}
    assert opened(kept, keys) == FULL
    with pytest.raises(SecretsSealed):
        opened(replace(kept, url=kept.url.replace("a.example", "b.example")), keys)


async def test_a_rotation_goes_on_where_it_was_ended_and_old_keys_open_until_then():
    inner = MemoryOutbox(StoreOptions(placer=places))
    before = SealedOutbox(inner, SealKeys([OLD]))  # type: ignore[arg-type]
    assert await inner.save_tenant(Tenant(id="b", created_at=START), expect=None)
    every = [replace(FULL, id=f"ep_{n}", tenant="b" if n > 2 else "default") for n in range(5)]
    for one in every:
        assert await before.save_endpoint(one, expect=None)
    both = SealedOutbox(inner, SealKeys([NEW, OLD]))  # type: ignore[arg-type]

    assert await both.reseal(2, act("secrets.rotated")) == 2  # and here it was killed
    assert await both.seals() == {key_id(OLD): 3, key_id(NEW): 2}
    again = SealedOutbox(inner, SealKeys([NEW, OLD]))  # type: ignore[arg-type]
    assert list(await again.endpoints()) == every
    done = [await again.reseal(2, act("secrets.rotated")) for _ in range(4)]
    assert (done, await again.seals()) == ([1, 2, 0, 0], {key_id(NEW): 5})
    assert list(await SealedOutbox(inner, SealKeys([NEW])).endpoints()) == every  # type: ignore[arg-type]
    with pytest.raises(SecretsSealed, match="HOOKLANE_SEAL_KEY"):
        await SealedOutbox(inner, SealKeys([OLD])).open()  # type: ignore[arg-type]


async def test_what_another_process_sealed_with_a_key_of_its_own_is_held_and_not_overwritten():
    inner = MemoryOutbox(StoreOptions(placer=places))
    await SealedOutbox(inner, SealKeys([NEW])).save_endpoint(FULL, expect=None)  # type: ignore[arg-type]
    elsewhere = SealedOutbox(inner, SealKeys([OLD]))  # type: ignore[arg-type]

    (held,) = await elsewhere.endpoints()

    assert (held.state, held.url, held.keys) == ("disabled", "https://a.example/hook", ())
    with pytest.raises(SecretsSealed):
        await elsewhere.save_endpoint(replace(held, name="x"), expect=held)


# --- a whole server ---


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sealed.db"
    return str(request.getfixturevalue("postgres_url"))


Serve = Callable[..., Any]


@pytest.fixture
async def serve(db: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Runs a server on *db* with some seal keys, one after the other."""
    monkeypatch.setattr(process, "_cores", lambda: 1)
    async with AsyncExitStack() as stack:

        async def begin(*keys: bytes) -> tuple[Connection, AsyncExitStack]:
            own = await stack.enter_async_context(AsyncExitStack())
            settings = Settings(
                db=db,
                port=0,
                api_key=Secret(API_KEY),
                egress_allow=("127.0.0.0/8",),
                seal_key=tuple(base64.b64encode(key).decode() for key in keys),
            )
            server = await own.enter_async_context(running(settings))
            port = int(server.address.rpartition(":")[2])
            return await own.enter_async_context(Connection(port, {"authorization": f"Bearer {API_KEY}"})), own

        yield begin


async def dump(db: str) -> bytes:
    """Everything that a thief of the database has."""
    if db.startswith("sqlite"):
        path = Path(db.removeprefix("sqlite:///"))
        return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))
    connection = await asyncpg.connect(db)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'hooklane'")
        rows = [
            row[0] for table in tables for row in await connection.fetch(f'SELECT t::text FROM hooklane."{table[0]}" t')
        ]
    finally:
        await connection.close()
    text = "\n".join(rows)
    words = text.replace("\\x", " ").replace('"', " ").replace(",", " ").replace(")", " ").split()
    return text.encode() + b"\n".join(bytes.fromhex(word) for word in words if _is_hex(word))


def _is_hex(word: str) -> bool:
    return len(word) % 2 == 0 and all(letter in "0123456789abcdef" for letter in word)


def body_of(sink: Sink) -> dict[str, Any]:
    return {
        "url": sink.url("/hook?token=canary-query"),
        "secret": SECRET,
        "headers": {"X-Token": "canary-header"},
        "attempts_max": 1,
    }


async def test_no_secret_stands_in_the_database_and_deliveries_carry_them_all_the_same(
    db: str, serve: Serve, sink: Sink
):
    sink.react = lambda seen: Answer(status=200 if "ok" in seen.body.decode() else 500, body=b"canary-header")
    api, _ = await serve(OLD)
    made = (await api.call("POST", "/api/v1/endpoints", body_of(sink))).json
    for word in ("ok", "bad"):
        await api.call("POST", "/api/v1/events", {"type": "a", "data": word})
    await sink.arrived(2)

    async def dead() -> Any:
        return (await api.call("GET", "/api/v1/dead-letters")).json["items"]

    await eventually(dead, within_s=20)
    shown = await api.call("GET", f"/api/v1/endpoints/{made['id']}")
    revealed = await api.call("POST", f"/api/v1/endpoints/{made['id']}/reveal")
    rotated = await api.call("POST", f"/api/v1/endpoints/{made['id']}/rotate", {})
    kept = await dump(db)

    assert {(one.path, one.headers["x-token"]) for one in sink.requests} == {
        ("/hook?token=canary-query", "canary-header")
    }
    assert made["id"].encode() in kept
    assert [canary for canary in CANARIES if canary.encode() in kept] == []
    assert revealed.json["secrets"] == [SECRET]
    assert not [canary for canary in CANARIES if canary.encode() in shown.body + rotated.body]


async def test_a_wrong_or_missing_key_is_an_error_at_the_start(db: str, serve: Serve, sink: Sink):
    api, own = await serve(OLD)
    await api.call("POST", "/api/v1/endpoints", body_of(sink))
    await own.aclose()
    before = await dump(db) if db.startswith("postgres") else b""

    for keys in ((), (NEW,)):
        with pytest.raises(SecretsSealed, match="Set HOOKLANE_SEAL_KEY"):
            await serve(*keys)
    if before:
        assert await dump(db) == before
    api, _ = await serve(NEW, OLD)
    assert len((await api.call("GET", "/api/v1/endpoints")).json["items"]) == 1


async def test_a_plain_database_is_sealed_by_a_rotation_and_then_by_another_key(
    db: str, serve: Serve, sink: Sink, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    api, own = await serve()
    made = (await api.call("POST", "/api/v1/endpoints", body_of(sink))).json
    assert (await api.call("GET", "/api/v1/secrets")).json == {"key": None, "endpoints": {}, "plain": 1}
    assert (await api.call("POST", "/api/v1/secrets/rotate")).code == "wrong_state"
    await own.aclose()
    assert SECRET.encode() in await dump(db)

    for keys in ((OLD,), (NEW, OLD)):
        monkeypatch.setenv("HOOKLANE_SEAL_KEY", ",".join(key.hex() for key in keys))
        assert await _in_thread("secrets", "rotate", "--scrub", "--db", db) == 0
    assert f"1 endpoint sealed with {key_id(NEW)}, 0 left" in capsys.readouterr().out

    assert [canary for canary in CANARIES if canary.encode() in await dump(db)] == []
    api, _ = await serve(NEW)
    assert (await api.call("GET", "/api/v1/secrets")).json == {
        "key": key_id(NEW),
        "endpoints": {key_id(NEW): 1},
        "plain": 0,
    }
    revealed = await api.call("POST", f"/api/v1/endpoints/{made['id']}/reveal")
    assert revealed.json["secrets"] == [SECRET]
    actions = [one["action"] for one in (await api.call("GET", "/api/v1/audit")).json["items"]]
    assert actions.count("secrets.rotated") == 2


def test_worker_processes_open_what_the_server_sealed(
    postgres_url: str, sink: Sink, start_hooklane: Callable[..., Child], tmp_path: Path
):
    port, file = free_port(), tmp_path / "seal.key"
    file.write_text(base64.b64encode(NEW).decode() + "\n")
    env = {"HOOKLANE_API_KEY": API_KEY, "HOOKLANE_SEAL_KEY_FILE": str(file), "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}
    child = start_hooklane("serve", "--db", postgres_url, "--port", str(port), "--workers", "2", env=env)
    child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200)
    url = f"http://127.0.0.1:{port}"
    os.environ["HOOKLANE_API_KEY"] = API_KEY
    try:
        added = run(["endpoints", "add", sink.url("/hook?token=canary-query"), "--secret", SECRET, "--server", url])
        sent = run(["send", "a", "1", "--server", url])
    finally:
        del os.environ["HOOKLANE_API_KEY"]

    assert (added, sent) == (0, 0)
    assert sink.wait_for(1)[0].path == "/hook?token=canary-query"
    assert child.stop() == 0


async def _in_thread(*arguments: str) -> int:
    return await asyncio.to_thread(run, arguments)
