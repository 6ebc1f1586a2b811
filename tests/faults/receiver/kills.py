"""A receiver behind a real HTTP server is killed at each crash point, while senders repeat what has no answer."""

from __future__ import annotations

import http.client
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import signed
from tests.support.clock_shim import ClockShim
from tests.support.effects import Effects
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.tree import ROOT, SOURCE

from hooklane.model.clock import Instant, wall_now

POINTS = ("after_claim", "after_handler", "before_commit", "after_commit")
SENDERS = 4
DAY_S = 86_400
AGAIN = 0.3
"""So many of the answered events are sent once more."""
BEFORE = 6
"""The crash comes at about this hit of its point, so that others are under way."""
MORE = 10
"""So many more events are answered after the last crash."""
WSGI = (
    "gunicorn",
    "--preload",
    "--workers",
    "1",
    "--threads",
    "4",
    "--log-level",
    "warning",
    "--bind",
    "127.0.0.1:{port}",
)
SERVERS = {
    "flask": (*WSGI, "tests.faults.receiver.app:flask_app()"),
    "django": (*WSGI, "tests.faults.receiver.app:django_app()"),
    "fastapi": (
        *("uvicorn", "--factory", "tests.faults.receiver.app:fastapi_app"),
        *("--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning"),
    ),
}


@dataclass
class Report(Effects):
    """What the senders were told, and what took effect."""

    kills: int = 0


class Senders:
    """Each repeats an event until it is answered with 200, and some of them once more."""

    def __init__(self, port: int, report: Report, seed: int) -> None:
        self._port = port
        self._report = report
        self._seed = seed
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        chance, count = random.Random(self._seed * 100 + number), 0
        while not self._stopping.is_set():
            count += 1
            event_id = f"evt_{self._seed}_{number}_{count}"
            while not self._deliver(event_id) and not self._stopping.is_set():
                time.sleep(0.02)
            if chance.random() < AGAIN:
                self._deliver(event_id)

    def _deliver(self, event_id: str) -> bool:
        return self.deliver(event_id) is not None

    def deliver(self, event_id: str, *, later_days: int = 0) -> str | None:
        """What a delivery was taken for, signed so many days later; None where it was not answered with 200."""
        request = signed(event_id, at=Instant(wall_now() + later_days * DAY_S * 1_000))
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=scaled_s(10))
        try:
            connection.request("POST", "/webhooks/hooklane", request.body, dict(request.headers))
            reply = connection.getresponse()
            reply.read()
        except (OSError, http.client.HTTPException):
            return None  # it has just died, or is being started
        finally:
            connection.close()
        if reply.status != 200:
            return None
        outcome = reply.getheader("hooklane-outcome")
        with self._lock:
            self._report.duplicates += outcome == "duplicate"
            self._report.answered.add(event_id)
        return outcome

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(scaled_s(60))


class Supervised:
    """A server that is started again when it has killed itself; gunicorn does that with its workers by itself."""

    def __init__(self, words: list[str], env: dict[str, str], log: Path) -> None:
        self._words, self._env, self._log = words, env, log
        self._start()

    def _start(self) -> None:
        self._child = Child(self._words, log=self._log, cwd=ROOT, env=self._env)

    def until(self, question: Callable[[], bool], *, what: str) -> None:
        def ask() -> bool:
            if self._child.returncode is not None:
                assert self._child.wait() == -signal.SIGKILL, self._child.output()
                self._start()
            return question()

        until(ask, what=what, within_s=60)

    def close(self) -> None:
        self._child.close()


def run(world: World, framework: str, mode: str, folder: Path, *, seed: int = 1, down_days: int = 0) -> Report:
    """Under load the receiver dies at each point in turn; what it has answered must take effect.

    With *down_days* it is then down for so long, and gets everything once more when it is back.
    """
    report, chance, port = Report(), random.Random(seed), free_port()
    setting_up = world.inbox(mode)  # the tables are there before the first request
    list(setting_up.rows())

    env = {
        "DIE_AT": ",".join(f"{point}@{chance.randrange(2, BEFORE)}" for point in POINTS),
        "DIED": str(folder),
        "INBOX_MODE": mode,
        "INBOX_URL": str(world.where()),
        "PYTHONPATH": os.pathsep.join((SOURCE, str(ROOT))),
    }
    clock = ClockShim(folder) if down_days else None
    env |= clock.env if clock is not None else {}
    words = [sys.executable, "-m", *(word.format(port=port) for word in SERVERS[framework])]
    server = Supervised(words, env, folder / "server.log")
    senders = Senders(port, report, seed)
    try:
        for point in POINTS:
            server.until((folder / point).exists, what=f"a death {point}")
            report.kills += 1
        wanted = len(report.answered) + MORE
        server.until(lambda: len(report.answered) >= wanted, what="more events to be answered")
        senders.stop()
        if clock is not None:
            server.close()
            clock.set(down_days * DAY_S)
            server = Supervised(words, env, folder / "server.log")
            _all_again(report, senders, server, down_days)
        server.until(
            lambda: {row.overall for row in setting_up.rows(limit=1_000)} == {"completed"}, what="all to be handled"
        )
    finally:
        senders.stop()
        server.close()
    report.effects = Counter(world.effects())
    return report


def _all_again(report: Report, senders: Senders, server: Supervised, later_days: int) -> None:
    """The sender repeats whatever it has sent: the receiver knows all of it."""
    taken_for: Counter[str] = Counter()
    for event_id in sorted(report.answered):
        outcomes: list[str] = []

        def is_answered(event_id: str = event_id, outcomes: list[str] = outcomes) -> bool:
            outcomes.extend(filter(None, [senders.deliver(event_id, later_days=later_days)]))
            return bool(outcomes)

        server.until(is_answered, what="an answer after the downtime")
        taken_for[outcomes[-1]] += 1
    assert taken_for == {"duplicate": len(report.answered)}, taken_for
