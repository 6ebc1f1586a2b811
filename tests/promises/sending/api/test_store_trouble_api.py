"""A store in trouble: what is told is what is so, and nothing is said to be kept that is not."""

import asyncio
import shutil
import sqlite3
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.promises.sending.api.conftest import Api, Start
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.receiver import Sink

import hooklane
from hooklane.errors import SearchTooLong
from hooklane.model.clock import wall_now


async def _not_ready(api: Api) -> dict[str, Any] | None:
    answer = await api.call("GET", "/readyz")
    return answer.json if answer.status == 503 else None


async def _ready(api: Api) -> bool:
    return (await api.call("GET", "/readyz")).status == 200


async def _logged(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == part]


async def test_a_server_without_room_says_how_much_is_missing_and_is_not_ready(start: Start):
    api = await start(disk_free_min=2**60)
    told = await eventually(lambda: _not_ready(api))
    answer = await api.call("POST", "/api/v1/events", {"type": "a", "data": 1})

    assert (answer.status, answer.code) == (507, "storage_full")
    assert "MiB are free" in answer.json["detail"]
    assert f"{2**40} MiB are to be kept free" in answer.json["detail"]
    assert "MiB are free" in told["store"]


@pytest.mark.parametrize("fault", ["_remove", "_replace", "_remove_log"])
async def test_a_server_whose_files_were_removed_or_replaced_keeps_nothing_and_says_so(
    start: Start, tmp_path: Path, fault: str
):
    api = await start(role=("api",))
    await api.publish()
    globals()[fault](tmp_path)

    answers = [await api.call("POST", path, body) for path, body in _PUBLISHES]
    told = await eventually(lambda: _not_ready(api))

    assert [(answer.status, answer.code) for answer in answers] == [(503, "storage_gone")] * 2
    assert "removed" in told["store"]


def _remove(folder: Path) -> None:
    for file in folder.glob("hooklane.db*"):
        file.unlink()


def _replace(folder: Path) -> None:
    shutil.copy(folder / "hooklane.db", folder / "other")
    (folder / "other").rename(folder / "hooklane.db")


def _remove_log(folder: Path) -> None:
    (folder / "hooklane.db-wal").unlink()


_PUBLISHES = (
    ("/api/v1/events", {"type": "a", "data": 1}),
    ("/api/v1/events/batch", {"events": [{"type": "a", "data": 1}]}),
)


async def test_a_publish_that_a_transaction_on_sqlite_holds_up_is_told_so(api: Api, tmp_path: Path):
    await eventually(lambda: _ready(api), within_s=60)  # a server that only just starts cannot do so beside the holder
    holder = sqlite3.connect(tmp_path / "hooklane.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        answer = await api.call("POST", "/api/v1/events", {"type": "a", "data": 1})
        told = await _not_ready(api)
    finally:
        holder.execute("ROLLBACK")
        holder.close()

    assert (answer.status, answer.code) == (503, "busy")
    assert "transaction elsewhere that is still open holds" in answer.json["detail"]
    assert told is not None
    assert "transaction elsewhere that is still open holds" in told["store"]
    await eventually(lambda: _ready(api))


async def test_a_server_whose_commits_do_not_end_is_not_ready(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hooklane.sender.publisher.COMMIT_S_MAX", 0.05)
    began, goes_on = asyncio.Event(), asyncio.Event()
    publish = api.server.services.store.publish

    async def hangs(drafts: Any) -> Any:
        began.set()
        await goes_on.wait()
        return await publish(drafts)

    monkeypatch.setattr(api.server.services.store, "publish", hangs)
    async with api.connect() as connection:
        connection.writer.write(connection.request("POST", "/api/v1/events", {"type": "a", "data": 1}))
        await asyncio.wait_for(began.wait(), scaled_s(20))
        told = await eventually(lambda: _not_ready(api))
        goes_on.set()
        await eventually(lambda: _ready(api))

    assert "a commit has not ended" in told["store"]


async def test_a_publish_on_a_key_that_a_transaction_holds_is_told_which(
    postgres_url: str, start: Start, monkeypatch: pytest.MonkeyPatch
):
    import asyncpg

    monkeypatch.setattr("hooklane.sender.publisher.AGAIN_MAX", 1)
    api = await start(db=postgres_url)
    await api.endpoint("http://127.0.0.1:9/")
    outbox = hooklane.Outbox(postgres_url)
    holder = await asyncpg.connect(postgres_url)
    try:
        async with holder.transaction():
            await outbox.publish("order.created", {}, key="order:7", tx=holder)
            answer = await api.call("POST", "/api/v1/events", {"type": "a", "data": 1, "key": "order:7"})
    finally:
        await holder.close()
        outbox.close()

    assert (answer.status, answer.code) == (503, "busy")
    assert "holds the key 'order:7'" in answer.json["detail"]


async def test_a_search_ends_when_its_client_leaves(api: Api, monkeypatch: pytest.MonkeyPatch):
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless(*_: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(api.server.services.store, "events", endless)
    async with api.connect() as connection:
        connection.writer.write(connection.request("GET", "/api/v1/events?state=dead"))
        await asyncio.wait_for(began.wait(), scaled_s(20))

    await asyncio.wait_for(ended.wait(), scaled_s(20))


async def test_a_search_that_takes_too_long_says_how_to_narrow_it(api: Api, monkeypatch: pytest.MonkeyPatch):
    async def too_long(*_: Any) -> None:
        raise SearchTooLong("narrow it by `after`")

    monkeypatch.setattr(api.server.services.store, "events", too_long)
    answer = await api.call("GET", f"/api/v1/events?before={wall_now()}")
    assert answer.status == 422

    answer = await api.call("GET", "/api/v1/events?state=dead")
    assert (answer.status, answer.code) == (503, "search_too_long")
    assert "narrow it" in answer.json["detail"]


async def test_a_server_whose_role_lost_its_rights_says_that_nothing_was_stored_and_logs_why(
    postgres_url: str, start: Start, sink: Sink, caplog: pytest.LogCaptureFixture
):
    role = f"app_{uuid.uuid4().hex[:12]}"
    url = urlsplit(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA hooklane TO {role}".encode())
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA hooklane TO {role}".encode())
        owner.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA hooklane TO {role}".encode())
        api = await start(db=url._replace(netloc=f"{role}@{url.hostname}:{url.port}").geturl())
        await api.endpoint(sink.url())
        owner.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA hooklane FROM {role}".encode())
        answer = await api.call("POST", "/api/v1/events", {"type": "a", "data": 1, "key": "k"})
        told = await eventually(lambda: _not_ready(api))
        await eventually(lambda: _logged(caplog, "hooklane.relay"))  # which asks the store when it polls
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA hooklane TO {role}".encode())
    await eventually(lambda: _ready(api), within_s=scaled_s(30))
    await api.publish(key="k")
    [arrived] = await sink.arrived(1)

    assert (answer.status, answer.code, "Nothing was stored" in answer.json["detail"]) == (503, "unavailable", True)
    assert "refused" in told["store"]
    assert arrived.headers["x-seq"] == "1"
    for part in ("hooklane.publisher", "hooklane.relay"):
        assert ["permission denied" in line for line in await _logged(caplog, part)] == [True]
