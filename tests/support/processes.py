"""Real child processes for tests: a captured log, waiting with a bound, rough treatment, and none ever left behind."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.support.fork_server import Forked
from tests.support.leftovers import entrust
from tests.support.pace import scaled_s

from hooklane.sender.egress import PORTS_DENIED

T = TypeVar("T")

POLL_S = 0.01
WITHIN_S = 20.0
START_TRIES = 3
_IS_LINUX = sys.platform == "linux"
_CHANCE = random.SystemRandom()  # nobody's seed makes two processes choose alike


class ProcessFailed(AssertionError):
    """The child ended, or did not do in time what was waited for. The message ends with the tail of its log."""


def free_port() -> int:
    """A loopback port that nobody listens on now, and that no connection is given as its own.

    A server that is started again on a port from the range for connections may find it taken by one. Nor is it one
    that the egress guard denies, and browsers.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) if _IS_LINUX else 49_152
    for _ in range(1_000):
        port = _CHANCE.randrange(10_000, min(first, 60_000)) if first > 11_000 else 0
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if (found := int(probe.getsockname()[1])) not in PORTS_DENIED:
                return found
    raise ProcessFailed("no loopback port is free")


def until(question: Callable[[], T | None], *, what: str, within_s: float = WITHIN_S) -> T:
    """The first truthy answer to *question*, asked again and again; *within_s* is for a quiet machine."""
    began = time.monotonic()
    while True:
        if answer := question():
            return answer
        waited_s = time.monotonic() - began
        if waited_s > within_s and waited_s > scaled_s(within_s):
            raise ProcessFailed(f"waited {waited_s:.0f} s in vain for {what}")
        time.sleep(POLL_S)


class Child:
    """A running process that leads its own group, logs into a file, and dies with the test process at the latest.

    Waiting blocks the caller: in a test with an event loop use `await asyncio.to_thread(child.wait_for_line, …)`.
    *born*: what starts it; `fork_server.fork` where how it starts is not what the test is about.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        last_signal: signal.Signals = signal.SIGKILL,
        born: "Callable[..., subprocess.Popen[bytes] | Forked]" = subprocess.Popen,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        with log.open("ab") as sink:
            self._log_from = sink.tell()
            self._process = born(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                start_new_session=True,
            )
        entrust("+", "process", self.pid, int(last_signal))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """All that this child has logged so far."""
        with self.log.open("rb") as source:
            source.seek(self._log_from)
            return source.read().decode(errors="replace")

    def wait_for_line(self, pattern: str, *, within_s: float = WITHIN_S) -> re.Match[str]:
        """The first match of *pattern* (a regular expression, `^` and `$` are line ends) in the log."""
        return self.wait_until(
            lambda: re.search(pattern, self.output(), re.MULTILINE), what=f"a line like {pattern!r}", within_s=within_s
        )

    def wait_for_http(self, url: str, *, status: int | None = None, within_s: float = WITHIN_S) -> int:
        """The status of the first answer to a GET of *url*; with *status*, waits for an answer that has it."""

        def answer() -> int | None:
            found = http_status(url)
            return found if status in (None, found) else None

        return self.wait_until(answer, what=f"an answer from {url}", within_s=within_s)

    def wait_until(self, question: Callable[[], T | None], *, what: str, within_s: float = WITHIN_S) -> T:
        """Like `until`, but gives up at once when the child ends."""

        def ask() -> T | None:
            ended = self.returncode is not None  # read before asking: its last words count
            answer = question()
            if ended and not answer:
                raise ProcessFailed(f"it ended with {self.returncode} before {what}")
            return answer

        try:
            return until(ask, what=what, within_s=within_s)
        except ProcessFailed as failure:
            raise ProcessFailed(f"{self}: {failure}\n{self._last_words()}") from None

    def _last_words(self) -> str:
        return "\n".join(self.output().splitlines()[-30:])

    def wait(self, *, within_s: float = WITHIN_S) -> int:
        """The exit status, once it has ended by itself."""
        try:
            status = self._process.wait(scaled_s(within_s))
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self}: still runs after {within_s:g} s\n{self._last_words()}") from None
        entrust("-", "process", self.pid)
        return status

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone, as an operator's `kill` does."""
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Stops it in the middle of whatever it does: a long pause of the host, as others see it."""
        self.send(signal.SIGSTOP)
        if isinstance(self._process, Forked):
            self._process.wait_until_stopped()
        else:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone. Processes that it started are left to `close`."""
        self._process.kill()
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM, *, within_s: float = WITHIN_S) -> int:
        """Asks it to end, and returns its exit status."""
        self.send(number)
        return self.wait(within_s=within_s)

    def close(self) -> None:
        """Ends it and everything in its group, whatever state they are in."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        entrust("-", "process", self.pid)

    def __str__(self) -> str:
        return " ".join(self.command[:6])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self.close()


def start_listening(
    spawn: Callable[[int], Child], ready: Callable[[Child, int], object], *, port: int | None = None
) -> tuple[Child, int]:
    """A server child that is *ready*, and its port: the given one, or a free one, and another if somebody took that."""
    for tries_left in reversed(range(START_TRIES)):
        chosen = port or free_port()
        child = spawn(chosen)
        try:
            ready(child, chosen)
        except ProcessFailed:
            child.close()
            if port or not tries_left or "ddress already in use" not in child.output():
                raise
        else:
            return child, chosen
    raise AssertionError("unreachable: the last try returns or raises")


# Loopback never goes through a proxy that the environment names.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def http_status(url: str) -> int | None:
    """The status of one GET; None where nobody answers."""
    try:
        with _OPENER.open(url, timeout=scaled_s(2)) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None
