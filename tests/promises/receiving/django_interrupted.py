"""A small Django program whose handlers meet errors of PostgreSQL: one `ok` for each promise that holds.

Usage: python -m tests.promises.receiving.django_interrupted NAME HOST PORT USER psycopg|psycopg2
"""

import sys
from contextlib import nullcontext
from typing import Any

from tests.promises.receiving.kit import HandClock, own_source, signed
from tests.promises.receiving.rivals import FIRST, QUICK_TO_SEE, SECOND, Rival

NAME, HOST, PORT, USER, DRIVER = sys.argv[1:]
if DRIVER == "psycopg2":
    sys.modules["psycopg"] = None  # type: ignore[assignment]  # then Django takes psycopg2

import django  # noqa: E402
from django.conf import settings  # noqa: E402

DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": NAME, "HOST": HOST, "PORT": PORT, "USER": USER}
settings.configure(DATABASES={"default": DATABASE})
django.setup()

from django.db import Error, connection, transaction  # noqa: E402
from django.db.backends.postgresql.psycopg_any import is_psycopg3  # noqa: E402

from hooklane.model.message import Status  # noqa: E402
from hooklane.receiver import Event, Inbox  # noqa: E402

assert is_psycopg3 is (DRIVER == "psycopg")
HOUR_MS = 3_600_000


def promise(held: bool, what: str) -> None:
    if not held:
        raise SystemExit(f"broken: {what}")
    print("ok")


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def effects() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT event_id FROM effects ORDER BY n")
        return [line[0] for line in cursor.fetchall()]


class Receiver:
    """An inbox in one mode, whose handler crosses a rival, fails, or catches an error, by the event's type."""

    def __init__(self, mode: Any) -> None:
        self.clock = HandClock()
        self.clock.pass_ms(24 * HOUR_MS)  # ahead of the database's, so that a retry is due when we say so
        self.inbox = Inbox("default", mode, clock=self.clock)
        run("DROP TABLE IF EXISTS account")
        self.rival = Rival(f"postgresql://{USER}@{HOST}:{PORT}/{NAME}")
        self.calls: list[str] = []
        own_source(self.inbox, order="none").on("*", name="handler")(self.handle)

    def handle(self, event: Event, tx: Any) -> None:
        self.calls.append(event.id)
        run(f"INSERT INTO effects (event_id) VALUES ('{event.id}')")
        if event.type == "order.crosses":
            run(QUICK_TO_SEE)
            run(FIRST)
            self.rival.cross()
            run(SECOND)
        elif self.calls.count(event.id) == 1:
            try:
                with transaction.atomic() if event.type == "order.nested" else nullcontext():
                    run("SELECT 1 / 0")
            except Error:
                if event.type == "order.fails":
                    raise

    def deliver(self, event_id: str, type: str) -> tuple[int, Any]:
        reply = self.inbox.receive(signed(event_id, type=type, at=self.clock.now))
        self.inbox.run_once()
        (row,) = self.inbox.rows(event_id=event_id)
        return reply.status, row.handlings[0]

    def twice(self, event_id: str, type: str) -> tuple[int, Any]:
        """Deliver it, and again when it is due, when it must take effect; what came of the first time."""
        first = self.deliver(event_id, type)
        assert event_id not in effects(), event_id
        if type == "order.crosses":
            self.rival.close()
        self.clock.pass_ms(HOUR_MS)
        status, handling = self.deliver(event_id, type)
        assert (status, handling.status) == (200, Status.COMPLETED), handling
        assert effects().count(event_id) == 1
        return first


for mode in ("durable", "inline"):
    receiver = Receiver(mode)
    refused = 200 if mode == "durable" else 503
    status, failed = receiver.twice(f"crosses_{mode}", "order.crosses")
    promise((status, failed.status, failed.attempts) == (refused, Status.FAILED, 0), f"a deadlock, {mode}: {failed}")
    promise("deadlock detected" in failed.error and "run(SECOND)" in failed.traceback, failed.error)
    status, failed = receiver.twice(f"fails_{mode}", "order.fails")
    promise(status == refused and failed.attempts == 1 and "division by zero" in failed.error, failed.error)
    status, failed = receiver.twice(f"catches_{mode}", "order.catches")
    promise(status == refused and "was caught inside the handler" in failed.error, failed.error)
    status, handled = receiver.deliver(f"nested_{mode}", "order.nested")
    assert (status, handled.status) == (200, Status.COMPLETED), "a nested atomic block is a savepoint"
