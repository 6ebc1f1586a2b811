"""A receiver behind a real HTTP server is killed at each crash point, while senders repeat what has no answer."""

from __future__ import annotations

import http.client
import os
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import signed
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.tree import ROOT, SOURCE

POINTS = ("after_claim", "after_handler", "before_commit", "after_commit")
SENDERS = 4
AGAIN = 0.3
"""So many of the answered events are sent once more."""
BEFORE = 6
"""The crash comes at about this hit of its point, so that others are under way."""
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
class Report:
    """What the senders were told, and what took effect."""

    kills: int = 0
    answered: set[str] = field(default_factory=set)
    duplicates: int = 0
    effects: Counter[str] = field(default_factory=Counter)

    @property
    def lost(self) -> set[str]:
        return self.answered - self.effects.keys()

    @property
    def twice(self) -> list[str]:
        return [event_id for event_id, times in self.effects.items() if times > 1]


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
        request = signed(event_id)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=scaled_s(10))
        try:
            connection.request("POST", "/webhooks/hooklane", request.body, dict(request.headers))
            reply = connection.getresponse()
            reply.read()
        except (OSError, http.client.HTTPException):
            return False  # it has just died, or is being started
        finally:
            connection.close()
        if reply.status != 200:
            return False
        with self._lock:
            self._report.duplicates += reply.getheader("hooklane-outcome") == "duplicate"
            self._report.answered.add(event_id)
        return True

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(scaled_s(60))


def run(world: World, framework: str, mode: str, folder: Path, *, seed: int = 1) -> Report:
    """Under load the receiver dies at each point in turn; what it has answered must take effect."""
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
    words = [sys.executable, "-m", *(word.format(port=port) for word in SERVERS[framework])]
    child = Child(words, log=folder / "server.log", cwd=ROOT, env=env)
    senders = Senders(port, report, seed)
    try:
        for point in POINTS:
            child.wait_until(lambda: _died(folder / point, child), what=point, within_s=60)  # noqa: B023
            assert (folder / point).exists(), child.output()
            report.kills += 1
            if framework == "fastapi":  # gunicorn starts a new worker by itself
                assert child.wait() == -9, child.output()
                child = Child(words, log=folder / "server.log", cwd=ROOT, env=env)
            _some_more(report)
        senders.stop()
        until(lambda: {row.overall for row in setting_up.rows(limit=1_000)} == {"completed"}, what="all to be handled")
    finally:
        senders.stop()
        child.close()
    report.effects = Counter(world.effects())
    return report


def _died(at: Path, child: Child) -> bool:
    """Whether it died there; True also when the whole server is gone, which the caller looks into."""
    return at.exists() or child.returncode is not None


def _some_more(report: Report) -> None:
    wanted = len(report.answered) + 5
    until(lambda: len(report.answered) >= wanted, what="more events to be answered", within_s=60)
