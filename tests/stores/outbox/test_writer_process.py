"""A server's SQLite is written by a process of its own: the same promises, and nothing built on one that died."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys

import pytest
from tests.support.pace import scaled_s
from tests.support.sqlite_files import new_outbox_file

from hooklane.cli.writer_process import COMMAND
from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.model.attempt import DELIVERED, Retry
from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.store.dashboard import SeriesRow
from hooklane.store.outbox import Refused, StoreOptions
from hooklane.store.reads import EventFilter
from hooklane.store.recovery import Cutoffs
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.store.sqlite.write_turns import WriteTurns
from hooklane.testing.conformance_outbox import OutboxConformance
from hooklane.testing.conformance_outbox.fencing import Fencing
from hooklane.testing.conformance_outbox.kit import T0, Owner, draft, endpoint, event, published
from hooklane.testing.conformance_outbox.settling import Settling


@pytest.fixture
async def store(tmp_path):
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places, extra={"writer_process": COMMAND}))
    await store.open()
    yield store
    await store.close()


class WithWriterProcess:
    """Each test starts a process of its own, which takes longer than most of what it then does."""

    @pytest.fixture
    async def store(self, tmp_path):
        new_outbox_file(tmp_path / "outbox.db")
        store = SqliteOutbox(
            str(tmp_path / "outbox.db"), StoreOptions(placer=places, extra={"writer_process": COMMAND})
        )
        await store.open()
        yield store
        await store.close()

    async def wait_for_expiry(self, store, lease_ms: int) -> None:
        await asyncio.sleep(lease_ms / 1000 + 0.01)


class TestWhatTheWriterProcessWrites(WithWriterProcess, Settling, Fencing):
    """Outcomes, and whose outcomes count; what is published for them is written by it as well."""


@pytest.mark.soak
class TestSqliteOutboxWithWriterProcess(WithWriterProcess, OutboxConformance):
    """All the rest is written by the store itself, beside the writer process."""


async def test_what_a_server_writes_by_itself_is_written_by_the_writer_process(store, monkeypatch):
    """In a thread of the server each of these took many times as long, and publishes and outcomes waited for it."""
    await store.save_endpoint(endpoint(), expect=None)
    await store.join("w", 60_000)

    def refuse(work):
        raise AssertionError("written by the server's own thread")

    monkeypatch.setattr(store._writer, "run", refuse)
    turn = Health("ep_a", 1, BreakerState.OPEN, T0, 0, "w")
    assert await store.note_health([turn]) == [turn]
    row = SeriesRow("default", 10, "", T0, "p", b"{}")
    await store.keep_series([row], before={60: T0})
    assert await store.series("default", [""], 10, T0) == [row]
    assert (await store.renew("w", 60_000)) is not None
    assert await store.greet("server", 60_000) == 1
    await store.publish([draft(event("evt_1", "k"))])
    cutoffs = Cutoffs(**dict.fromkeys(("events", "attempts", "idempotency", "audit", "jobs", "wakeups"), T0))
    cursor = None
    while (step := await store.prune(cutoffs, cursor, 10)).next is not None:
        cursor = step.next


async def test_publishes_outcomes_and_endpoints_are_written_side_by_side(store):
    await store.save_endpoint(endpoint(), expect=None)
    reports = await asyncio.gather(
        *(store.publish([draft(event(f"evt_{n}", f"k{n % 5}"))]) for n in range(50)),
        *(store.save_endpoint(endpoint(f"ep_{n}", types=("never",)), expect=None) for n in range(20)),
    )
    seqs: dict[str, list[int]] = {}
    for report in reports[:50]:
        for grown in report.grown:
            seqs.setdefault(grown.key, []).append(grown.seq)

    assert {key: sorted(found) for key, found in seqs.items()} == {f"k{n}": list(range(1, 11)) for n in range(5)}
    assert all(reports[50:])


async def test_a_failure_is_written_as_in_full_as_by_a_thread(store, tmp_path):
    by_thread = SqliteOutbox(str(tmp_path / "by_thread.db"), StoreOptions(placer=places))
    await by_thread.open()
    found = []
    for one in (store, by_thread):
        await one.save_endpoint(endpoint(), expect=None)
        lane_id = (await published(one, event("evt_1"))).grown[0].lane_id
        owner = await Owner.of(one, "w")
        await owner.settle(lane_id, Retry(T0, "503"))
        held = await owner.row(lane_id)
        await owner.settle(lane_id, DELIVERED)
        found.append((held, await one.attempts("default", "evt_1")))
    await by_thread.close()

    assert found[0] == found[1]
    held, attempts = found[0]
    assert (held.attempts, held.next_at) == (1, T0)
    assert [attempt.outcome for attempt in attempts] == ["retry", "delivered"]


async def test_a_refusal_and_an_error_come_back_as_what_they_are(store, tmp_path):
    await store.save_endpoint(endpoint(), expect=None)
    report = await store.publish([draft(event("evt_1"), asked=("ep_nowhere",)), draft(event("evt_2"))])
    with sqlite3.connect(tmp_path / "outbox.db") as conn:
        conn.execute("DROP TABLE hooklane_lane_event")

    assert isinstance(report.results[0], Refused)
    assert report.results[0].code == "unknown_endpoint"
    assert [grown.event.id for grown in report.grown] == ["evt_2"]
    with pytest.raises(StoreError, match="hooklane_lane_event"):
        await store.publish([draft(event("evt_3"))])


async def test_a_batch_that_is_refused_leaves_no_trace_in_the_commit_that_it_shares(store):
    await store.save_endpoint(endpoint(), expect=None)
    before, whole, refused, after = await asyncio.gather(
        store.publish([draft(event("evt_1"))]),
        store.publish_all([draft(event("evt_2")), draft(event("evt_3"))]),
        store.publish_all([draft(event("evt_4")), draft(event("evt_5"), asked=("ep_nowhere",))]),
        store.publish([draft(event("evt_6"))]),
    )

    assert [result.code for result in refused.results] == ["batch_refused", "unknown_endpoint"]
    assert refused.grown == []
    assert refused.span is None
    assert [one.seq for report in (before, whole, after) for one in report.grown] == [1, 2, 3, 4]
    assert [one.id for one in (await store.events("default", EventFilter(), None, 9)).items] == [
        *("evt_6", "evt_3", "evt_2", "evt_1")
    ]


async def test_a_lane_goes_on_where_another_process_left_it(store, tmp_path):
    """The writer process remembers where lanes end, until somebody else writes."""
    await store.save_endpoint(endpoint(), expect=None)
    other = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await other.open()
    try:
        turns = [store, store, other, other, store, other, store, store]
        found = [(await one.publish([draft(event(f"evt_{n}", "k"))])).grown[0] for n, one in enumerate(turns)]
    finally:
        await other.close()

    assert [grown.seq for grown in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len({grown.lane_id for grown in found}) == 1


async def test_a_lane_that_is_known_goes_on_where_it_was_after_its_events_were_pruned(store):
    await store.save_endpoint(endpoint(), expect=None)
    owner = await Owner.of(store, "w")
    for n in range(1, 4):
        (grown,) = (await published(store, event(f"evt_{n}", "k"))).grown
        assert grown.seq == n
        await owner.settle(grown.lane_id, DELIVERED)
        later = Instant(T0 + 3_600_000)
        cutoffs = Cutoffs(**dict.fromkeys(("events", "attempts", "idempotency", "audit", "jobs", "wakeups"), later))
        assert (await store.prune(cutoffs, None, 100)).rows["events"] == 1


async def test_what_was_undone_leaves_no_gap_in_a_lane_that_was_known(store):
    await store.save_endpoint(endpoint(), expect=None)
    await store.publish([draft(event("evt_1", "k"))])
    await store.publish_all([draft(event("evt_2", "k")), draft(event("evt_3", "k"), asked=("ep_nowhere",))])

    report = await store.publish([draft(event("evt_4", "k")), draft(event("evt_5", "k"))])

    assert [grown.seq for grown in report.grown] == [2, 3]


async def test_a_caller_that_goes_away_keeps_nobody_waiting(store):
    await store.save_endpoint(endpoint(), expect=None)
    gone = asyncio.ensure_future(store.publish([draft(event("evt_1"))]))
    await asyncio.sleep(0)
    gone.cancel()

    report = await store.publish([draft(event("evt_2"))])

    assert report.grown[0].seq == 2


DIES = """
import asyncio, sys
from hooklane.cli.writer_process import COMMAND
from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox

async def main():
    store = SqliteOutbox(sys.argv[1], StoreOptions(placer=places, extra={"writer_process": COMMAND}))
    await store.open()
    print(store._writer_process._process.pid, flush=True)
    await asyncio.sleep(30)

asyncio.run(main())
"""


def test_a_server_whose_writer_process_dies_exits_at_once(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", DIES, str(tmp_path / "x.db")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    os.kill(int(parent.stdout.readline()), signal.SIGKILL)

    assert parent.wait(scaled_s(10)) == 70
    assert "the process that writes has ended" in parent.communicate()[1]


def test_a_writer_process_ends_with_its_server_and_not_before(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", DIES, str(tmp_path / "x.db")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    writer_process = int(parent.stdout.readline())
    os.kill(writer_process, signal.SIGTERM)  # as a service manager sends it to the whole group
    assert parent.poll() is None

    parent.kill()
    parent.communicate()

    pidfd = os.pidfd_open(writer_process) if is_alive(writer_process) else None
    if pidfd is not None:
        assert select.select([pidfd], [], [], 10)[0], "the writer process lives on without its server"
        os.close(pidfd)


def test_a_writer_process_whose_server_was_killed_before_it_read_an_answer_ends_without_a_word(tmp_path):
    ours, theirs = socket.socketpair()
    ours.sendall(b"\0\0\0\1\0x")
    write = "from hooklane.store.sqlite.writer_process import write_for_parent; import sys;"
    write += f"write_for_parent(int(sys.argv[1]), {str(tmp_path / 'h.db')!r}, 100, {{0: lambda conn, text: text}})"
    with theirs:
        writer_process = subprocess.Popen(
            [sys.executable, "-c", write, str(theirs.fileno())], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        )
    assert select.select([ours], [], [], 10)[0], "it did not answer"

    ours.close()

    assert (writer_process.communicate(timeout=scaled_s(10))[1], writer_process.returncode) == (b"", 0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestPen:
    async def test_one_side_writes_together_and_the_other_waits(self):
        turns, order = WriteTurns(), []

        async def write(side: str, name: str, until: asyncio.Event) -> None:
            await turns.take(side)
            order.append(name)
            await until.wait()
            turns.give_back()

        end = asyncio.Event()
        tasks = [asyncio.ensure_future(write(side, f"{side}{n}", end)) for n, side in enumerate("aabba")]
        for _ in range(3):
            await asyncio.sleep(0)
        assert order == ["a0", "a1"], "who comes after a waiting side waits behind it"
        end.set()
        await asyncio.gather(*tasks)

        assert order == ["a0", "a1", "b2", "b3", "a4"]

    async def test_who_gives_up_waiting_leaves_the_line(self):
        turns, end = WriteTurns(), asyncio.Event()

        async def write(side: str) -> None:
            await turns.take(side)
            await end.wait()
            turns.give_back()

        first, second, third = (asyncio.ensure_future(write(side)) for side in "aba")
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait((second,))
        end.set()
        await asyncio.gather(first, third)
        last = asyncio.ensure_future(write("c"))

        await asyncio.wait_for(last, scaled_s(5))
        assert [one.cancelled() for one in (first, second, third, last)] == [False, True, False, False]
