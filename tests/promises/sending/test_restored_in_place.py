"""A backup is put into the SQLite file while the server runs: what is published afterwards is delivered."""

from __future__ import annotations

import asyncio
import sqlite3

from tests.support.running_sender import running_sender

from hooklane.sender.outbox import Outbox


def copy(source, target) -> None:
    with sqlite3.connect(source, timeout=20) as old, sqlite3.connect(target, timeout=20) as new:
        old.backup(new)
    old.close()
    new.close()


async def test_a_worker_joins_anew_when_a_backup_is_restored_under_it(tmp_path, sink) -> None:
    path, backup = tmp_path / "hooklane.db", tmp_path / "backup.db"
    async with running_sender(f"sqlite:///{path}") as sender:
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        await asyncio.to_thread(copy, path, backup)
        lost = [(await sender.publish("order.created", key="k")).event_id for _ in range(20)]
        await sender.delivered(*lost)

        await asyncio.to_thread(copy, backup, path)

        with Outbox(f"sqlite:///{path}") as outbox:
            ids = [outbox.publish("order.created", n, key="k").event_id for n in range(5)]
            ids += [outbox.publish("order.created", n).event_id for n in range(2)]
        await sender.delivered(*ids)

        arrived = [request.headers["webhook-id"] for request in sink.requests]
        assert [id for id in arrived if id in ids[:5]] == ids[:5], "once each, in the order of their key"
        assert {*ids[5:]} <= {*arrived}
        assert not any((await sender.store.deliveries("default", lost)).values()), "the backup does not know them"
