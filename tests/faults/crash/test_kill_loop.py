"""kill -9 of the whole server, again and again under load: nothing lost, nothing reordered."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest
from tests.faults.crash.traffic import Load

from hooklane.testing.arrivals import tally

CLIENTS, KEYS_EACH = 8, 4


def heads(db: str) -> dict[str, int]:
    """The durable head of each lane: everything before it is settled."""
    with sqlite3.connect(db) as conn:
        rows = conn.execute("SELECT t.key, l.head FROM hooklane_lane_tail t JOIN hooklane_lane l USING (lane_id)")
        return dict(rows.fetchall())


@pytest.mark.parametrize("kills", [25, pytest.param(200, marks=pytest.mark.soak)])
async def test_s11_kills_under_load_lose_and_reorder_nothing(site, receiver, make_endpoint, tmp_path: Path, kills: int):
    chance = random.Random(20260301)
    # One reply in fifty is a failure and one in a hundred never comes, so that retries are under way at the kills too.
    receiver.react = lambda key, seq: chance.choices((200, 503, 0), (97, 2, 1))[0]
    server = await site.serve()
    await server.ready()
    await make_endpoint()
    load = Load([site.port], clients=CLIENTS, keys_each=KEYS_EACH)
    settled: list[dict[str, int]] = []
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(load.run())
        for _ in range(kills):
            taken = len(receiver.log)
            await receiver.until(lambda so_far=taken: len(receiver.log) > so_far)  # it delivers
            await asyncio.sleep(chance.uniform(0.0, 0.06))
            await server.kill()
            settled.append(heads(str(tmp_path / "hooklane.db")))
            await receiver.next_life()
            server = await site.serve()
        load.stop()
        await loading
    await receiver.has(load.accepted, within_s=60)
    await server.stop()
    seen = tally(load.accepted, receiver.arrivals(), {})
    lives_of_first: dict[tuple[str, int], int] = {}
    unexplained = []
    for one in receiver.log:
        if one.status == 200:
            first = lives_of_first.setdefault((one.key, one.seq), one.life)
            # Explained: another life, whose predecessor died before the ack of the first copy was durable.
            if first is not one.life and one.seq < settled[one.life - 1].get(one.key, 1):
                unexplained.append(one)
    same_life = [one for one in receiver.copies() if lives_of_first[one.key, one.seq] == one.life]

    assert seen.violations == ()
    assert (seen.lost, seen.reordered) == (0, 0)
    assert unexplained == []
    assert same_life == []
    assert seen.duplicates <= kills * CLIENTS * KEYS_EACH
    assert load.events > kills  # it really was under load
    with sqlite3.connect(tmp_path / "hooklane.db") as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(f"{kills} kills, {load.events} events, {seen.duplicates} copies after a crash")
