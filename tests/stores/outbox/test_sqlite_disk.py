"""What a disk may do to a SQLite file: F6, it takes no more; F7, it does not keep what it took."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pace import scaled_s
from tests.support.sqlite_files import new_outbox_file
from tests.support.tree import ROOT, SOURCE

STORE = """
import asyncio, pathlib, resource, sys
from hooklane.store.reads import LaneFilter
from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox.kit import endpoint, event, published
path, mark = sys.argv[1:]
accepted = []

async def main():
    store = SqliteOutbox(path, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    await published(store, event("first"))
    await fail(store)

async def left(store):
    lane = (await store.lanes("default", LaneFilter(), None, 9)).items[0]
    return [event.id for _, _, event in await store.fetch([(lane.lane_id, 1, 10_000)])]
"""
MAY_NOT_GROW = """
async def fail(store):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    refused = 0
    for number in range(2_000):
        try:
            await published(store, *(event(f"e{number}-{n}") for n in range(20)))
            accepted.extend(f"e{number}-{n}" for n in range(20))
        except StoreError:
            refused += 1
            if refused == 5:
                break
    assert refused == 5
    assert await left(store) == ["first", *accepted]  # all or nothing of each, and reading goes on
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await published(store, event("last"))
    assert await left(store) == ["first", *accepted, "last"]
    print("went on")

asyncio.run(main())
"""
DOES_NOT_KEEP = """
async def fail(store):
    pathlib.Path(mark).touch()
    try:
        await published(store, event("unknown"))
    except StoreError:
        pass
    print("went on")

asyncio.run(main())
"""


def run(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = folder / "outbox.db"
    if not path.exists():
        new_outbox_file(path)
    return subprocess.run(
        [sys.executable, "-c", STORE + script, str(path), str(folder / "failing")],
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}", **env},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )


def test_f6_a_file_that_may_not_grow_refuses_whole_publishes_and_goes_on_when_it_may(tmp_path) -> None:
    done = run(MAY_NOT_GROW, tmp_path)

    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr


def test_f7_a_failed_fsync_ends_the_process_at_once(tmp_path) -> None:
    library = tmp_path / "failing_sync.so"
    shim = ROOT / "tests/support/failing_sync.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, shim, "-ldl"], check=True, timeout=scaled_s(60))

    done = run(DOES_NOT_KEEP, tmp_path, LD_PRELOAD=str(library), FAILING_SYNC=str(tmp_path / "failing"))

    assert done.returncode == 70, done.stdout + done.stderr
    assert "the disk failed to keep a commit" in done.stderr
    assert "went on" not in done.stdout
