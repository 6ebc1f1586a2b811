"""Failovers of a PostgreSQL with a synchronous standby under an inbox: what was answered 2xx takes effect, once.

`python -m tests.faults.crash.inbox_failover --rounds 20` runs them by hand and prints figures; a few are in
test_failover.py.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from tests.promises.receiving.kit import own_source, signed
from tests.support.effects import Effects
from tests.support.failover import Pair, ask, synchronous_pair
from tests.support.pace import scaled_s
from tests.support.processes import until

from hooklane.errors import HooklaneError
from hooklane.receiver import Event, Inbox
from hooklane.store.postgres import commits

SENDERS = 4
COMMIT_WAIT_S = 1.0
"""Shorter than the 30 s of a server in use, so that commits are given up while the standby is frozen."""
FROZEN_S = 2.0
AGAIN = 0.3
"""How many of the answered events are sent once more: a duplicate is answered from what is there."""
CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
Mode = Literal["durable", "inline"]


@dataclass
class Report(Effects):
    """What a run has seen."""

    refused: int = 0
    cancelled: int = 0


class Traffic:
    """Senders that repeat an event until it is answered 2xx, and some of them once more."""

    def __init__(self, inbox: Inbox, report: Report, seed: int) -> None:
        self._inbox = inbox
        self._report = report
        self._seed = seed
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        chance = random.Random(self._seed * 1_000 + number)
        count = 0
        while not self._stopping.is_set():
            count += 1
            event_id = f"evt_{number}_{count}"
            while not self._deliver(event_id) and not self._stopping.is_set():
                time.sleep(0.01)
            if chance.random() < AGAIN:
                self._deliver(event_id)

    def _deliver(self, event_id: str) -> bool:
        reply = self._inbox.receive(signed(event_id))
        if reply.status != 200:
            self._report.refused += 1
            return False
        self._report.duplicates += dict(reply.headers).get("hooklane-outcome") == "duplicate"
        self._report.answered.add(event_id)
        return True

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(scaled_s(60))


def run(rounds: int, *, mode: Mode, frozen_every: int, seed: int = 1) -> Report:
    """Fail over *rounds* times, each *frozen_every*-th time with a standby that had been frozen for a while."""
    report, chance, patience_s = Report(), random.Random(seed), commits.COMMIT_WAIT_S
    commits.COMMIT_WAIT_S = COMMIT_WAIT_S
    try:
        with synchronous_pair() as pair:
            _run(report, rounds, mode, frozen_every, chance, seed, pair)
    finally:
        commits.COMMIT_WAIT_S = patience_s
    return report


def _run(
    report: Report, rounds: int, mode: Mode, frozen_every: int, chance: random.Random, seed: int, pair: Pair
) -> None:
    ask(pair.primary, "CREATE TABLE effects (event_id text)")
    inbox = Inbox(pair.url(), mode, lease_ms=1_000)

    @own_source(inbox, order="none").on("*", name="handler")
    def handler(event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO effects VALUES (%s)", (event.id,))

    inbox.start_worker()
    traffic = Traffic(inbox, report, seed)
    try:
        for number in range(1, rounds + 1):
            _some_more(report)
            if number % frozen_every == 0:
                _freeze(report, pair, chance)
            pair.fail_over()
            pair.come_back()
        _some_more(report)
    finally:
        traffic.stop()
    until(lambda: _owed(pair) == 0, what="the worker to have handled all", within_s=120)
    inbox.close()
    report.effects = Counter(str(id) for (id,) in ask(pair.primary, "SELECT event_id FROM effects"))


def _freeze(report: Report, pair: Pair, chance: random.Random) -> None:
    """The standby confirms nothing for a while. What waits for it is cancelled by an operator now and then, or shown by
    the primary when it comes back from a crash."""
    pair.freeze()
    if chance.random() < 0.5:
        time.sleep(0.5)
        pair.crash_the_primary()
    ends_at = time.monotonic() + FROZEN_S
    while time.monotonic() < ends_at:
        time.sleep(0.2)
        if chance.random() < 0.5:
            report.cancelled += len(ask(pair.primary, CANCEL))


def _some_more(report: Report) -> None:
    wanted = len(report.answered) + 40
    until(lambda: len(report.answered) >= wanted, what="more events to be answered", within_s=120)


def _owed(pair: Pair) -> int | None:
    owed = "SELECT count(*) FROM hooklane.inbox_handling WHERE status IN ('pending', 'in_progress', 'failed')"
    with suppress(psycopg.Error, HooklaneError):
        return int(str(ask(pair.primary, owed)[0][0]))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--frozen-every", type=int, default=2)
    parser.add_argument("--mode", choices=["durable", "inline"], default="durable")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    report = run(asked.rounds, mode=asked.mode, frozen_every=asked.frozen_every, seed=asked.seed)
    print(
        f"{asked.rounds} failovers, {asked.mode}: {len(report.answered)} events answered 2xx, {len(report.lost)} lost,"
        f" {len(report.twice)} with two effects; {report.duplicates} duplicates, {report.refused} answers of 503,"
        f" {report.cancelled} waits cancelled by an operator"
    )


if __name__ == "__main__":
    main()
