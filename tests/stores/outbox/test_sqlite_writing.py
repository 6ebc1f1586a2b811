"""What the SQLite store adds to the promises of an outbox: group commits, and marks that pass over what is known."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

import pytest

from hooklane import Outbox as ApplicationOutbox
from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.store.outbox import PublishReport, StoreOptions
from hooklane.store.sql.outbox.endpoints import save_endpoint
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.store.sqlite.outbox.statements import run
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event, published


@pytest.fixture
async def store(tmp_path):
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other_process(tmp_path, store):
    """The same file through connections of its own, as another process has it."""
    other = SqliteOutbox(store.path, StoreOptions(placer=places))
    await other.open()
    yield other
    await other.close()


def seqs(report: PublishReport) -> Sequence[tuple[str | None, int]]:
    return [(grown.key, grown.seq) for grown in report.grown]


class TestGroupCommit:
    async def test_a_job_that_fails_is_not_its_neighbours_failure(self, store):
        await store.save_endpoint(endpoint(), expect=None)

        def fails(conn: sqlite3.Connection) -> None:
            conn.execute("DELETE FROM hooklane_event")
            conn.execute("INSERT INTO no_such_table VALUES (1)")

        results = await asyncio.gather(
            store.publish([draft(event("evt_1"))]),
            store._writer.run(fails),
            store.publish([draft(event("evt_2"))]),
            return_exceptions=True,
        )

        assert isinstance(results[1], StoreError)
        assert [*seqs(results[0]), *seqs(results[2])] == [("k", 1), ("k", 2)]
        assert {"evt_1", "evt_2"} == {(await store.event("default", id)).id for id in ("evt_1", "evt_2")}

    async def test_an_endpoint_that_was_rolled_back_is_not_published_to(self, store):
        def makes_and_fails(conn: sqlite3.Connection) -> None:
            run(conn, save_endpoint(endpoint("ep_never"), None))
            store._publish(conn, [draft(event("evt_0"))])
            raise RuntimeError("something else went wrong")

        with pytest.raises(RuntimeError):
            await store._writer.run(makes_and_fails)
        await store.save_endpoint(endpoint("ep_real"), expect=None)  # gets the revision that the other had
        report = await published(store, event("evt_1"))

        assert [grown.endpoint_id for grown in report.grown] == ["ep_real"]

    async def test_a_thousand_events_of_a_few_keys_are_stamped_without_a_gap(self, store):
        await store.save_endpoint(endpoint(), expect=None)

        report = await published(store, *(event(f"evt_{n}", f"k{n % 7}") for n in range(1_000)))

        for lane in range(7):
            mine = [seq for key, seq in seqs(report) if key == f"k{lane}"]
            assert list(range(1, len(mine) + 1)) == mine
        assert [len(report.grown)] == [1_000]


class TestMarks:
    async def test_a_poll_reads_nothing_of_what_this_process_has_fed(self, store):
        await store.save_endpoint(endpoint(), expect=None)
        mark = (await (await Owner.of(store)).load()).mark

        for number in range(3):
            report = await published(store, event(f"evt_{number}"), event(f"loose_{number}", key=None))
            mark = report.span.past(mark)

        assert list((await store.poll("w1", range(256), mark)).grown) == []

    async def test_a_mark_does_not_pass_over_what_others_published(self, store, other_process):
        await store.save_endpoint(endpoint(), expect=None)
        mark = (await (await Owner.of(store)).load()).mark

        await published(other_process, event("evt_1", "theirs"))
        mine = await published(store, event("evt_2", "mine"))
        await published(other_process, event("evt_3", key=None))
        late = await published(store, event("evt_4", key=None))

        assert mine.span.past(mark) is None
        news = await store.poll("w1", range(256), mark)
        assert {"theirs", "mine", None} == {grown.key for grown in news.grown}
        assert news.mark == late.span.past(news.mark)  # what the poll has read already moves nothing

    async def test_a_publish_during_a_load_is_in_the_load_or_in_the_next_poll(self, store):
        await store.save_endpoint(endpoint(), expect=None)
        owner = await Owner.of(store)
        application = ApplicationOutbox(f"sqlite:///{store.path}")

        def publish_between(sql: str) -> None:
            if "sqlite_sequence" in sql:  # the lanes have been read, the mark has not
                store._reader.set_trace_callback(None)
                application.publish("order.created", {}, key="k")

        store._reader.set_trace_callback(publish_between)
        load = await owner.load()
        news = await store.poll("w1", range(256), load.mark)

        loaded = [row.key for rows in load.lanes.values() for row in rows]
        assert [*loaded, *(grown.key for grown in news.grown)] == ["k"]
