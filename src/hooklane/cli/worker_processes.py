"""The worker processes of `serve --workers N`: started, listened to, and replaced when one dies."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from hooklane.config import Settings
from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.worker_name import LABEL_MAX
from hooklane.server.recent_attempts import Told
from hooklane.server.tally import Tally, tally_of

log = logging.getLogger("hooklane.workers")

COMMAND = (sys.executable, "-m", "hooklane.cli.worker")
RESTART_S = 0.2
RESTART_S_MAX = 30.0
STEADY_S = 10.0
"""A worker that lived so long did not die of what the worker before it died of."""
GRACE_S = 20.0
"""Longer than a worker's own: it drains by itself, and is killed only when it hangs."""
NUDGE_S = 0.05
LINE_BYTES_MAX = 16 * 2**20


Absorb = Callable[[Tally, Sequence[Told], Mapping[str, Instant]], None]
"""Takes what a worker has counted and tried."""


class WorkerProcesses:
    """The workers of a server. Each has a pipe to it, whose end is what tells the worker to drain and to end.

    So no worker outlives its server, not even one that was killed; and a worker that a service manager has signalled
    too is told once, not twice.
    """

    def __init__(self, settings: Settings, command: Sequence[str] = COMMAND, *, restart_s: float = RESTART_S) -> None:
        self._settings = settings
        self._size = settings.workers
        self._command = command
        self._restart_s = restart_s
        self._processes: dict[int, Process] = {}
        self._ready: set[int] = set()
        self._failed: set[int] = set()
        self._has_begun = False
        self._stopping = asyncio.Event()
        self._nudging: asyncio.TimerHandle | None = None
        self._nudge_again = False
        self._absorb: Absorb = lambda *_: None

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker delivers."""
        return bool(self._ready) and not self._stopping.is_set()

    async def run(self, absorb: Absorb) -> None:
        """Keep all workers going until `stop`, then until the last has drained; *absorb* adds up what they count.

        `UsageError` when at the start none of them can begin.
        """
        self._absorb = absorb
        async with asyncio.TaskGroup() as group:
            for number in range(1, self._size + 1):
                group.create_task(self._keep(number), name=f"worker {number}")

    def stop(self) -> None:
        """Let all of them finish what is in flight."""
        self._stopping.set()
        for process in self._processes.values():
            self._dismiss(process)

    def nudge(self) -> None:
        """Something was published or changed: the workers need not wait for their next poll."""
        if self._nudging is not None:
            self._nudge_again = True
            return
        for process in self._processes.values():
            pipe = process.stdin
            # One that does not read, since it is frozen, gets no heap of nudges.
            if pipe is not None and not pipe.is_closing() and not pipe.transport.get_write_buffer_size():
                pipe.write(b"\n")
        self._nudging = asyncio.get_running_loop().call_later(NUDGE_S, self._rested)

    def _rested(self) -> None:
        self._nudging = None
        if self._nudge_again:
            self._nudge_again = False
            self.nudge()

    async def _keep(self, number: int) -> None:
        """Keep worker *number* running: when it dies, start another, after a pause that grows with early deaths."""
        pause_s = self._restart_s
        clock = asyncio.get_running_loop().time
        while not self._stopping.is_set():
            began = clock()
            code = await self._employ(number)
            if self._stopping.is_set():
                return
            if not self._has_begun:
                self._failed.add(number)
                if len(self._failed) == self._size:
                    raise UsageError(f"none of the {self._size} workers could start, see the lines above")
            if clock() - began > STEADY_S:
                pause_s = self._restart_s
            log.warning("worker %d ended with %d: another one starts in %.1f s", number, code, pause_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(pause_s * 2, RESTART_S_MAX)

    async def _employ(self, number: int) -> int:
        """One worker from its start to its end; its exit status."""
        process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX)
        assert process.stdin is not None
        assert process.stdout is not None
        self._processes[number] = process
        try:
            if not process.stdin.is_closing():  # one that died at once has closed it: its exit status tells
                process.stdin.write(self._letter(number))
            if self._stopping.is_set():
                self._dismiss(process)
            async for line in process.stdout:
                self._hear(number, line)
            return await process.wait()
        finally:
            self._ready.discard(number)
            del self._processes[number]
            if process.returncode is None:  # we are cancelled: what is left of it would outlive this loop
                _kill(process)
                process.stdin.close()
                await process.communicate()

    def _letter(self, number: int) -> bytes:
        """What a worker is told first. It answers no calls, so it does not need the API key."""
        name = self._settings.worker_name
        own_name = None if name is None else f"{name}.{number}"[-LABEL_MAX:]
        seal_key = tuple(map(str, self._settings.seal_key))  # plain text: a Secret is no JSON
        plain = replace(self._settings, api_key=None, seal_key=seal_key, worker_name=own_name)
        return msgspec.json.encode(plain) + b"\n"

    def _hear(self, number: int, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # it was killed in the middle of a line: what it had counted since the one before is lost
        told = msgspec.json.decode(line)
        if "ready" in told:
            self._ready.add(number)
            self._has_begun = True
            log.info("worker %d delivers (pid %d)", number, self._processes[number].pid)
        else:
            self._absorb(tally_of(told), [(tenant, view) for tenant, view in told["recent"]], told["certificates"])

    def _dismiss(self, process: Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        asyncio.get_running_loop().call_later(GRACE_S, _kill, process)


def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it ended just now
            process.kill()
