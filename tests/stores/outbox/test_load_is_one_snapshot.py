"""Loading a partition on SQLite, while another process publishes in the middle of it."""

import sqlite3
from pathlib import Path

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.sender.draft import draft_of
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite import database
from hooklane.store.sqlite.outbox import SqliteOutbox, lanes

SECRET = "whsec_" + "A" * 43 + "="


async def test_an_event_published_during_a_load_is_in_its_lanes_or_after_its_mark(tmp_path: Path):
    path = str(tmp_path / "x.db")
    store = SqliteOutbox(path, StoreOptions(placer=places))
    await store.open()
    endpoint = Endpoint(id="ep_1", url="https://a.example/", created_at=Instant(1), keys=(SigningKey(SECRET),))
    await store.save_endpoint(endpoint, expect=None)
    await store.join("w", 30_000)
    epochs = {taken.pid: taken.epoch for taken in await store.acquire("w", 256)}
    other, reader = database.connect(path), database.connect(path)

    def publish_between(statement: str) -> None:
        if "FROM hooklane_endpoint" in statement:  # the lanes are read, the mark is not taken
            with database.writing(other):
                store._publish(other, [draft_of("a", b"1", now=Instant(2), key="k")])

    reader.set_trace_callback(publish_between)
    load = lanes.load(reader, "w", epochs)
    reader.set_trace_callback(None)
    news = lanes.poll(reader, list(epochs), load.mark)

    assert _published(other) == 1
    assert not any(load.lanes.values())
    assert [(grown.key, grown.seq) for grown in news.grown] == [("k", 1)]
    for conn in (other, reader):
        conn.close()
    await store.close()


def _published(conn: sqlite3.Connection) -> int:
    ((count,),) = conn.execute("SELECT count(*) FROM hooklane_event").fetchall()
    return int(count)
