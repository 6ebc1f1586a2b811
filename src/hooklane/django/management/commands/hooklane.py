"""`manage.py hooklane worker | once | prune | replay | stats`."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hooklane.django.inbox import inbox
from hooklane.errors import HooklaneError


class Command(BaseCommand):
    help = "Work on the inbox: run handlers, prune, replay, count."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        worker = acts.add_parser("worker", help="run handlers until stopped")
        worker.add_argument("--threads", type=int, default=1)
        acts.add_parser("once", help="run the handlers of what is due now, then end")
        acts.add_parser("prune", help="remove what the dedup window does not need any more")
        replay = acts.add_parser("replay", help="run the handlers of stored events again")
        replay.add_argument("--source")
        replay.add_argument("--status", default="dead")
        replay.add_argument("--event-id")
        acts.add_parser("stats", help="rows by source and status")

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
        stop.wait()
        box.stop()

    def _once(self, options: dict[str, Any]) -> None:
        self.stdout.write(str(inbox().run_once()))

    def _prune(self, options: dict[str, Any]) -> None:
        self.stdout.write(str(inbox().prune()))

    def _replay(self, options: dict[str, Any]) -> None:
        wanted = {name: options[name] for name in ("source", "status", "event_id") if options[name]}
        self.stdout.write(str(inbox().replay(**wanted)))

    def _stats(self, options: dict[str, Any]) -> None:
        self.stdout.write(str(inbox().stats()))
