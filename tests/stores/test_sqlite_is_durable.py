"""Whatever we open of a SQLite file to write to it, a COMMIT is on the disk when it returns."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Any

import pytest
from tests.promises.receiving.kit import SECRET, signed
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.receiver import Inbox
from hooklane.sender.outbox import Outbox
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.testing.conformance_outbox.kit import Owner, endpoint, event, published

FULL = 2
"""The WAL is synced at every commit. 1 (NORMAL) syncs it now and then: a power cut undoes what was acknowledged."""


class Opened:
    """Every connection that was made, and how it was set when it committed something."""

    def __init__(self) -> None:
        self.settings: list[tuple[int, str]] = []

    def connection(self, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        settings = self.settings

        class Watched(sqlite3.Connection):
            def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
                if sql.lstrip().upper().startswith("COMMIT"):
                    ((synchronous,),) = super().execute("PRAGMA synchronous").fetchall()
                    ((journal,),) = super().execute("PRAGMA journal_mode").fetchall()
                    settings.append((synchronous, journal))
                return super().execute(sql, *params)

        return Watched(*args, **kwargs)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    opened = Opened()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=opened.connection))
    return opened


async def test_every_commit_of_the_outbox_is_synced(tmp_path, opened: Opened) -> None:
    url = new_outbox_file(tmp_path / "outbox.db")
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    lane_id = (await published(store, event("e1", "k"))).grown[0].lane_id
    owner = await Owner.of(store)
    opened.settings.clear()

    await owner.deliver(lane_id)
    with Outbox(url) as outbox:
        outbox.publish("order.created", 1, key="k")

    assert len(opened.settings) >= 2
    assert set(opened.settings) == {(FULL, "wal")}
    await store.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_every_commit_of_the_inbox_is_synced(tmp_path, opened: Opened, mode: str) -> None:
    inbox = Inbox(f"sqlite:///{tmp_path / 'inbox.db'}", mode=mode)
    inbox.source("hooklane", [SECRET]).on("order.*")(lambda event, tx: None)
    opened.settings.clear()

    assert inbox.receive(signed()).status == 200
    inbox.run_once()

    assert opened.settings
    assert set(opened.settings) == {(FULL, "wal")}
    inbox.close()
