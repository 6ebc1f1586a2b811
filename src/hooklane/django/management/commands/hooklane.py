"""`manage.py hooklane worker | once | prune | replay | skip | stats | doctor`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hooklane.django.inbox import inbox
from hooklane.errors import HooklaneError
from hooklane.model.message import Status
from hooklane.model.size import counted
from hooklane.receiver.advice import advise, advise_on_state

PASSES_MAX = 100_000
STATUSES = [str(status) for status in Status]


class Command(BaseCommand):
    help = "Work on the inbox: run handlers, prune, replay, count, and say what is wrong."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        worker = acts.add_parser("worker", help="run handlers until stopped")
        worker.add_argument("--threads", type=_positive, default=1)
        acts.add_parser("once", help="run the handlers of what is due now, then end")
        acts.add_parser("prune", help="remove what the dedup window does not need any more")
        replay = acts.add_parser("replay", help="run the handlers of stored events again: dead ones unless said")
        _search(replay, status="dead")
        replay.add_argument("--shadow", action="store_true", help="run them at once, roll back, and report")
        skip = acts.add_parser("skip", help="give up dead events; a key that waits behind one moves on")
        _search(skip, status="dead")
        skip.add_argument("--note", required=True, help="why, for operators who look later")
        stats = acts.add_parser("stats", help="how many events are in which status")
        stats.add_argument("--json", action="store_true")
        acts.add_parser("doctor", help="what is wrong or dangerous; exit code 1 when something is")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['act']}")(options)
        except HooklaneError as error:
            raise CommandError(str(error)) from error

    def _worker(self, options: dict[str, Any]) -> None:
        box, stop = inbox(), threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        box.start_worker(options["threads"])
        self.stderr.write("hooklane: working; stop with SIGTERM")
        while not stop.wait(1.0):
            if not box.worker.is_running:
                raise CommandError("the worker has ended by itself; see the log")
        self.stderr.write("hooklane: finishing what is in hand")
        box.stop()

    def _once(self, options: dict[str, Any]) -> None:
        done = 0
        for _ in range(PASSES_MAX):
            now = inbox().run_once()
            done += now
            if not now:
                break
        self.stdout.write(f"{done} handled")

    def _prune(self, options: dict[str, Any]) -> None:
        pruned = inbox().prune()
        told = counted(pruned.rows, "row"), counted(pruned.payloads, "payload"), counted(pruned.tombstones, "tombstone")
        self.stdout.write(f"{', '.join(told)} removed")

    def _replay(self, options: dict[str, Any]) -> None:
        if options["shadow"]:
            shadows = inbox().replay(shadow=True, **_wanted(options))
            for shadow in shadows:
                self.stdout.write(str(shadow))
            self.stdout.write(f"{len(shadows)} run in the shadow, and rolled back")
            return
        self.stdout.write(f"{inbox().replay(**_wanted(options))} to be handled again")

    def _skip(self, options: dict[str, Any]) -> None:
        self.stdout.write(f"{inbox().skip(note=options['note'], **_wanted(options))} skipped")

    def _stats(self, options: dict[str, Any]) -> None:
        stats = inbox().stats()
        if options["json"]:
            counts = [
                {"source": each.source, "handler": each.handler, "status": str(each.status), "rows": each.rows}
                for each in stats.counts
            ]
            breakers = {f"{source}/{name}": str(state) for (source, name), state in stats.breakers.items()}
            self.stdout.write(json.dumps({"counts": counts, "lag_ms": stats.lag_ms, "breakers": breakers}))
            return
        for each in stats.counts:
            self.stdout.write(f"{each.source:20} {each.handler or '-':32} {each.status:12} {each.rows:>8}")
        self.stdout.write(f"oldest owed: {stats.lag_ms / 1000:.1f} s")

    def _doctor(self, options: dict[str, Any]) -> None:
        found = [*advise(inbox()), *advise_on_state(inbox())]
        for advice in found:
            self.stdout.write(f"{advice.text}\n    {advice.hint}")
        if found:
            sys.exit(1)
        self.stdout.write("nothing to say")


def _search(parser: Any, *, status: str) -> None:
    parser.add_argument("--source")
    parser.add_argument("--status", choices=STATUSES, default=status)
    parser.add_argument("--event-id")
    parser.add_argument("--type")
    parser.add_argument("--handler")


def _wanted(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("source", "status", "event_id", "type", "handler") if options[name]}


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise ValueError(text)
    return int(text)
