"""Starts `python -m hooklane …` without reading all of its modules anew: a process that has read them forks.

What is started is a process like any other, with its own session, environment, folder, output and exit status; only
the reading of modules lies behind it, which is two thirds of what a command costs. How a program starts from nothing is
shown by the tests that use `subprocess.Popen`, and where the environment says how modules are found, so does `fork`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from tests.support.pace import scaled_s
from tests.support.tree import ROOT, SOURCE

PRELOADED = (
    *("uvicorn", "uvloop", "uvicorn.protocols.http.httptools_impl", "rich.console", "rich.table"),
    *("hooklane.cli.process", "hooklane.cli.direct", "hooklane.cli.client", "hooklane.cli.worker"),
    *("hooklane.store.sqlite.outbox.store", "hooklane.store.postgres.outbox.store", "hooklane.store.open_inbox"),
    "hooklane.receiver.inbox",
)
REQUEST_BYTES_MAX = 128 * 1024
START_WITHIN_S = 30.0
MEANS_MODULES = ("PYTHON", "LD_")
"""Variables that begin so say how a process finds what it loads: it has to begin from nothing."""
KNOWN = {"PYTHONPATH", "PYTHONUNBUFFERED"}
_one_at_a_time = threading.Lock()


class Forked:
    """A process that the fork server has made: what `subprocess.Popen` is to a child of our own."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        self._look(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._look(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("hooklane", timeout or 0)
        return self.returncode

    def _look(self, timeout: float | None) -> None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 16) or -signal.SIGKILL)  # nothing: the fork server was killed
            os.close(self._status)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait_until_stopped(self) -> None:
        deadline = time.monotonic() + scaled_s(START_WITHIN_S)
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline, "it goes on after SIGSTOP"
            time.sleep(0.001)


def fork(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    **options: Any,
) -> Forked | subprocess.Popen[bytes]:
    """What `subprocess.Popen` does, for a *command* that is `python -m MODULE …`."""
    python, dash_m, *words = command
    assert (python, dash_m) == (sys.executable, "-m"), command
    path = [word for word in env.get("PYTHONPATH", "").split(os.pathsep) if word]
    finds = {name for name in env if name.startswith(MEANS_MODULES) and os.environ.get(name) != env[name]}
    if sys.platform != "linux" or finds - KNOWN or path[:1] != [SOURCE]:
        return subprocess.Popen(command, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, **options)
    status, told = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    out = _number(stdout, 0)
    try:
        request = {"words": words, "env": dict(env), "cwd": str(cwd or Path.cwd()), "path": path}
        files = [_number(stdin, null), out, _number(stderr, out), told]
        with _one_at_a_time:
            server, _ = _server(os.getpid())
            socket.send_fds(server, [json.dumps(request).encode()], files)
            answer = server.recv(16)
        assert answer, "the fork server has ended: what it wrote tells why"
        pid = int(answer)
    finally:
        os.close(null)
        os.close(told)
    return Forked(pid, status)


def _number(file: int | IO[bytes], else_: int) -> int:
    if isinstance(file, int):
        assert file in (subprocess.STDOUT, subprocess.DEVNULL)
        return else_
    return file.fileno()


@cache
def _server(_owner: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The fork server of this process; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)])},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    ours.settimeout(scaled_s(START_WITHIN_S))
    return ours, process


# --- the fork server's own side ---


def main(fd: str) -> None:
    sock = socket.socket(fileno=int(fd))
    own_path = [SOURCE, str(ROOT)]
    found = [entry for entry in sys.path if entry not in own_path]
    for name in (*PRELOADED, *(f"hooklane.cli.{name}" for name in import_module("hooklane.cli.main").COMMANDS)):
        import_module(name)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        import_module("hooklane.cli.main").run(["version"])  # which loads what typer reads options with
    gc.collect()
    gc.freeze()
    running = selectors.DefaultSelector()
    running.register(sock, selectors.EVENT_READ)
    while True:
        for key, _ in running.select():
            if key.fileobj is not sock:
                _tell_end(running, key)
                continue
            text, fds, _, _ = socket.recv_fds(sock, REQUEST_BYTES_MAX, 4)
            if not text:
                return  # whose tests they were has ended; its reaper ends them
            leads, led = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.setsid()
                os.write(led, b".")
                sock.close()  # or its number would be closed once more at the end, whatever has it then
                running.close()
                _become(json.loads(text), fds[:3], found)
            os.read(leads, 1)  # it leads its group: who hears of it may signal that
            for one in (*fds[:3], leads, led):
                os.close(one)
            running.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, fds[3]))
            sock.send(str(pid).encode())


def _tell_end(running: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, told = key.data
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    running.unregister(key.fileobj)
    os.close(key.fd)
    with suppress(BrokenPipeError):
        os.write(told, str(code).encode())
    os.close(told)


def _become(wanted: dict[str, Any], fds: Sequence[int], found: Sequence[str]) -> None:
    """Be the process that is *wanted*; ends as that does, by `SystemExit`."""
    for here, there in zip(fds, range(3), strict=True):
        os.dup2(here, there)
    os.closerange(3, max(4_096, *fds) + 1)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.path[:] = [wanted["cwd"], *wanted["path"], *found]
    if "PYTHONUNBUFFERED" in wanted["env"]:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    module, *arguments = wanted["words"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
