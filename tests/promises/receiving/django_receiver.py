"""A small Django program that receives: run by test_callers_transactions, one `ok` for each promise that holds."""

import sqlite3
import sys
from functools import partial
from itertools import product
from typing import Any

import django
from django.conf import settings

ENGINE, NAME, *SERVER = sys.argv[1:]
DATABASE: dict[str, Any] = {"ENGINE": f"django.db.backends.{ENGINE}", "NAME": NAME}
if SERVER:
    DATABASE |= {"HOST": SERVER[0], "PORT": SERVER[1], "USER": SERVER[2]}
settings.configure(DATABASES={"default": DATABASE}, INSTALLED_APPS=[], DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()

from django.db import connection, models, transaction  # noqa: E402
from tests.promises.receiving.kit import outcome, own_source, signed  # noqa: E402

from hooklane.errors import UsageError  # noqa: E402
from hooklane.receiver import Event, Inbox  # noqa: E402
from hooklane.telemetry.events import CommitHookFailed, FenceRejected  # noqa: E402


class Payment(models.Model):
    event_id = models.CharField(max_length=64)

    class Meta:
        app_label = "shop"


def promise(held: bool, what: str) -> None:
    if not held:
        raise SystemExit(f"broken: {what}")
    print("ok")


with connection.schema_editor() as editor:
    editor.create_model(Payment)

committed: list[str] = []
for mode in ("durable", "inline"):
    inbox = Inbox("default", mode)  # type: ignore[arg-type]

    @own_source(inbox, order="none").on("*")
    def pay(event: Event, tx: Any) -> None:
        Payment.objects.create(event_id=event.id)
        transaction.on_commit(lambda: committed.append(event.id))
        if event.type == "order.fails":
            raise RuntimeError("after the write")

    inbox.receive(signed(f"good_{mode}"))
    inbox.run_once()
    inbox.receive(signed(f"bad_{mode}", type="order.fails"))
    inbox.run_once()
    paid = list(Payment.objects.filter(event_id__endswith=mode).values_list("event_id", flat=True))
    promise(paid == [f"good_{mode}"] and committed[-1:] == paid, f"one commit with the ORM, {mode}: {paid} {committed}")
    promise(outcome(inbox.receive(signed(f"good_{mode}"))) == "duplicate", f"dedup, {mode}")


class Panic(BaseException):
    """As a library in Rust raises it."""


def fail(kind: type[BaseException]) -> None:
    raise kind


for mode, kind in product(("durable", "inline"), (ZeroDivisionError, Panic)):
    told: list[Any] = []
    inbox = Inbox("default", mode, emit=told.append)  # type: ignore[arg-type]

    @own_source(inbox, order="none").on("*", name="pay")
    def pay_and_fail_later(event: Event, tx: Any, kind: type[BaseException] = kind) -> None:
        Payment.objects.create(event_id=event.id)
        transaction.on_commit(partial(fail, kind))
        transaction.on_commit(lambda: committed.append(event.id))

    id = f"hook_{mode}_{kind.__name__}"
    reply = inbox.receive(signed(id))
    inbox.run_once()
    (row,) = inbox.rows(event_id=id)
    promise((reply.status, str(row.overall)) == (200, "completed"), f"a hook's error is none of the commit, {id}")
    promise(id in committed, f"the hooks behind one that failed are called, {id}")
    hooks = [each for each in told if isinstance(each, CommitHookFailed) and each.event_id == id]
    failed = [(each.handler, each.error) for each in hooks]
    promise([(name, error.partition(":")[0]) for name, error in failed] == [("pay", kind.__name__)], f"{told}")
    promise(not any(isinstance(each, FenceRejected) for each in told), f"no claim was lost, {mode}")

for mode, savepoint, fails in product(("durable", "inline"), (True, False), (True, False)):
    told = []
    inbox = Inbox("default", mode, emit=told.append)  # type: ignore[arg-type]

    @own_source(inbox, order="none").on("*", name="pay")
    def pay_in_a_block_that_is_not_left(
        event: Event, tx: Any, savepoint: bool = savepoint, fails: bool = fails
    ) -> None:
        if event.id.startswith("left"):
            transaction.atomic(savepoint=savepoint).__enter__()
        Payment.objects.create(event_id=event.id)
        if event.id.startswith("left") and fails:
            raise RuntimeError("inside the block")

    id = f"left_{mode}_{savepoint}_{fails}"
    reply = inbox.receive(signed(id))
    inbox.run_once()
    promise(not connection.in_atomic_block, f"a block that a handler has left open ends with ours, {id}")
    (row,) = inbox.rows(event_id=id)
    promise(str(row.overall) != "completed" and not Payment.objects.filter(event_id=id), f"it is a failure, {id}")
    promise(
        mode == "durable" or outcome(reply) != "applied", f"nothing is answered that is not committed, {id}: {reply}"
    )
    inbox.receive(signed(f"after_{id}"))
    inbox.run_once()
    promise(Payment.objects.filter(event_id=f"after_{id}").count() == 1, f"the next event is handled, {id}")

told = []
inbox = Inbox("default", emit=told.append)
with inbox.claim("bank", "hook_claim") as claim:
    transaction.on_commit(lambda: 1 // 0)
promise((claim.verdict, len(told)) == ("applied", 1), f"a claim's hook is told of too: {told}")

if ENGINE == "sqlite3":
    # A handler that reads before it writes must have been the writer from the start: SQLite would refuse it at once.
    inbox = Inbox("default")

    @own_source(inbox, order="none").on("*")
    def count_first(event: Event, tx: Any) -> None:
        Payment.objects.count()
        other = sqlite3.connect(NAME, timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            Payment.objects.create(event_id=event.id)
        finally:
            other.close()

    inbox.receive(signed("reads_first"))
    inbox.run_once()
    promise(Payment.objects.filter(event_id="reads_first").count() == 1, "a handler begins as a writer")
    inbox = Inbox("default", "inline", inline_wait_ms=200)
    own_source(inbox, order="none").on("*")(count_first)
    elsewhere = sqlite3.connect(NAME)
    elsewhere.execute("BEGIN IMMEDIATE")
    connection.cursor().execute("PRAGMA busy_timeout = 50")
    busy = inbox.receive(signed("while_busy"))
    promise(dict(busy.headers)["retry-after"] == "1", "a locked file is busy, not away")
    elsewhere.close()

inbox = Inbox("django:default")
own_source(inbox)
try:
    with transaction.atomic():  # as ATOMIC_REQUESTS would: the answer would go out before the commit
        inbox.receive(signed("inside"))
except UsageError as refused:
    promise("non_atomic_requests" in str(refused), "an outer atomic block is refused")

connection.set_autocommit(False)  # as a middleware may: the end of our block would be the end of a savepoint
try:
    by_hand = Inbox("default")
    own_source(by_hand)
    reply = by_hand.receive(signed("by_hand"))
except UsageError as refused:
    promise("autocommit" in str(refused), "a connection that commits by hand is refused")
else:
    promise(False, f"nothing is answered that nobody commits: {reply}")
finally:
    connection.rollback()
    connection.set_autocommit(True)
