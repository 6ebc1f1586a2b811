"""The writer process of a server on SQLite: what is written most is written beside the event loop, not in its turn.

Two threads of one process share an interpreter lock, and a thread that writes to SQLite gives it up and takes it back
at every step: half of the machine stood still, and a fifth of the rest went into passing the lock. Requests go to the
writer process as bytes over a socket pair and are answered in their order, each after the commit that holds it.

A writer process whose parent dies finishes the commit it is in, and ends. Nothing is built on a writer process that
dies: as after a failed fsync, only a restart can tell what is on the disk.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from hooklane.batching.line import Ticket
from hooklane.errors import StoreUnavailable
from hooklane.store.sqlite.database import connect
from hooklane.store.sqlite.group import GROUP_MAX, Group, Job

Work = Callable[[sqlite3.Connection, bytes], bytes]
"""What the writer process does for a kind of request: its text in, its answer out."""

RECEIVED_BYTES_MAX = 1 << 20
CHECKPOINT_PAGES = 8_000
CACHE_KIB = 16 * 1024
_HEAD = 5
_DONE, _FAILED = 0, 1
_END_S = 10.0
_MEANT_FOR_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Service managers, `timeout` and terminals signal the whole group; the process ends when its socket is closed."""


def _frame(kind: int, text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + bytes([kind]) + text


class _Frames:
    """Bytes as they come, cut into (kind, text)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes]]:
        buffer = self._buffer
        buffer += data
        found, at = [], 0
        while len(buffer) - at >= _HEAD:
            end = at + _HEAD + int.from_bytes(buffer[at : at + 4], "big")
            if len(buffer) < end:
                break
            found.append((buffer[at + 4], bytes(memoryview(buffer)[at + _HEAD : end])))
            at = end
        if at:
            del buffer[:at]
        return found


# --- the writer process's own side ---


def write_for_parent(
    fd: int, path: str, busy_wait_ms: int, works: Mapping[int, Work], undone: Callable[[], None] = lambda: None
) -> None:
    """Do what is asked for on the socket *fd* until it is closed; what has gathered meanwhile shares a commit."""
    for number in _MEANT_FOR_PARENT:
        signal.signal(number, signal.SIG_IGN)  # it still has outcomes to write
    conn = connect(path, busy_wait_ms=busy_wait_ms)
    # What was written is copied into the file itself less often, and a page that changed many times only once; reading
    # it back meanwhile takes some memory.
    conn.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    conn.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    group, frames = Group(conn, path, undone=undone), _Frames()
    # One place for all that comes: memory of this size, made anew for each request, is asked of the system each time.
    room = memoryview(bytearray(RECEIVED_BYTES_MAX))
    with socket.socket(fileno=fd) as sock:
        sock.setblocking(True)
        while size := _received(sock, room):
            asked = frames.feed(room[:size])
            for at in range(0, len(asked), GROUP_MAX):
                jobs: list[Job] = [Ticket(partial(_do, works[kind], text)) for kind, text in asked[at : at + GROUP_MAX]]
                group.commit(jobs)
                try:
                    sock.sendall(b"".join(map(_answer, jobs)))
                except OSError:
                    return  # the parent is gone; the write stands all the same
    conn.close()


def _received(sock: socket.socket, room: memoryview) -> int:
    """How much has come; 0 once the parent is gone, be it that it was killed before it had read our answers."""
    try:
        return sock.recv_into(room)
    except ConnectionResetError:
        return 0


def _do(work: Work, text: bytes, conn: sqlite3.Connection) -> bytes:
    return work(conn, text)


def _answer(job: Job) -> bytes:
    return _frame(_DONE, job.value()) if job.error is None else _frame(_FAILED, pickle.dumps(job.error))


# --- the parent's side ---


class WriterProcess(asyncio.Protocol):
    """The parent's end: sends requests, and hands each answer to the task that waits for it."""

    def __init__(self, died: Callable[[], None]) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._frames = _Frames()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._died = died

    @classmethod
    async def start(
        cls, command: Sequence[str], path: str, busy_wait_ms: int, died: Callable[[], None]
    ) -> WriterProcess:
        """*command* runs `write_for_parent` with what is appended to it: descriptor, path, wait."""
        ours, theirs = socket.socketpair()
        writer_process = cls(died)
        with theirs:
            arguments = [*command, str(theirs.fileno()), path, str(busy_wait_ms)]
            # Not asyncio's own: that would watch the child, and how this one ends is told by its socket.
            writer_process._process = await asyncio.to_thread(_spawn, arguments, theirs.fileno())
        ours.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: writer_process, sock=ours)
        return writer_process

    async def request(self, kind: int, text: bytes) -> bytes:
        """What came of the request, once it is durable; an error of the store is raised here."""
        assert self._transport is not None
        if self._closing:
            raise StoreUnavailable("the store is being closed: nothing more is written")
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._transport.write(_frame(kind, text))
        return await future

    async def close(self) -> None:
        """Let the writer process finish, and see it end."""
        self._closing = True
        if self._transport is not None and self._process is not None:
            self._transport.close()
            await asyncio.to_thread(self._process.wait, _END_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for kind, text in self._frames.feed(data):
            future = self._waiting.popleft()
            if future.done():
                continue  # the task that asked went away; the write stands all the same
            if kind == _DONE:
                future.set_result(text)
            else:
                future.set_exception(pickle.loads(text))  # from our own child, over a pair that no other process holds

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            self._died()


def _spawn(arguments: Sequence[str], fd: int) -> subprocess.Popen[bytes]:
    # A child is born with the mask of the thread that makes it: no signal can come before it ignores them by itself.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _MEANT_FOR_PARENT)
    try:
        return subprocess.Popen(arguments, pass_fds=[fd], stdin=subprocess.DEVNULL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def exit_without_writer_process() -> None:
    """Whether its last commit happened only a restart can tell."""
    print("hooklane: the process that writes has ended; exiting so that nothing is built on it", file=sys.stderr)
    sys.stderr.flush()
    os._exit(70)
