"""A project's own tests, run by Django's runner; each name is something that hooklane promises in Django."""

import json
import threading
from io import StringIO

from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.db.models.signals import post_save
from django.test import Client, TestCase, TransactionTestCase, override_settings

from hooklane.django import inbox, source
from hooklane.django.handlers import REGISTERED, Registered
from hooklane.testing import Webhooks
from shop.models import Notice, Payment


def post(client, event):
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in event.request.headers}
    content_type = headers.pop("HTTP_CONTENT_TYPE")
    return client.post("/webhooks/stripe", event.request.body, content_type=content_type, **headers)


def invoice(webhooks, type="invoice.paid", number=1):
    return webhooks.stripe(type, data={"object": {"id": f"in_{number}"}})


def command(*words):
    out = StringIO()
    call_command("hooklane", *words, stdout=out, stderr=out)
    return out.getvalue()


def with_settings(**changes):
    return override_settings(HOOKLANE={**settings.HOOKLANE, **changes})


class InATransactionOfTheTest(TestCase):
    def setUp(self):
        self.webhooks = self.enterContext(Webhooks(inbox()))

    def test_the_tables_are_made_by_migrate_and_outlive_a_tests_rollback(self):
        assert ("inbox_row" if connection.vendor == "postgresql" else "hooklane_inbox_row") in tables()

    def test_what_an_earlier_test_has_received_and_applied_is_rolled_back(self):
        assert ([*inbox().rows()], Payment.objects.count()) == ([], 0)

    def test_handlers_are_found_in_each_apps_webhooks_module(self):
        assert [*inbox().sources["stripe"].handlers] == ["paid"]

    def test_an_event_is_applied_once(self):
        event = invoice(self.webhooks)
        self.webhooks.deliver(event, copies=3)
        assert self.webhooks.applied(event) == 1
        assert [payment.invoice for payment in Payment.objects.all()] == ["in_1"]

    def test_a_crash_and_a_redelivery_give_one_payment(self):
        for number, at in enumerate(("after_claim", "after_handler", "before_commit", "after_commit")):
            self.webhooks.crash(invoice(self.webhooks, number=number), at)
        assert Payment.objects.count() == 4

    def test_orm_writes_are_rolled_back_with_the_completion(self):
        self.webhooks.deliver(invoice(self.webhooks, "invoice.bad"))
        assert Payment.objects.count() == 0
        (row,) = inbox().rows()
        assert str(row.overall) == "failed"


class ForReal(TransactionTestCase):
    def setUp(self):
        self.webhooks = self.enterContext(Webhooks(inbox()))
        self.client = Client(enforce_csrf_checks=True)

    def tearDown(self):
        with connection.cursor() as cursor:
            for table in tables():
                if table.startswith("hooklane_inbox_") or (connection.vendor == "postgresql" and "inbox_" in table):
                    schema = "hooklane." if connection.vendor == "postgresql" else ""
                    cursor.execute(f"DELETE FROM {schema}{table}")

    def test_a_view_without_csrf_token_inside_atomic_requests_is_stored_by_a_commit_of_its_own(self):
        answer = post(self.client, invoice(self.webhooks))
        assert (answer.status_code, answer["hooklane-outcome"]) == (200, "stored")
        assert answer.json() == {"status": "ok"}

    def test_what_is_refused_says_no_more_than_it_must(self):
        event = invoice(self.webhooks)
        answer = post(self.client, self.webhooks.tampered(event))
        assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})
        assert self.client.post("/webhooks/nobody").status_code == 404
        assert self.client.get("/webhooks/stripe").status_code == 405
        big = self.client.post("/webhooks/stripe", b" " * 1_100_000, content_type="application/json")
        assert (big.status_code, big["hooklane-outcome"]) == (413, "rejected")

    def test_a_database_that_is_away_when_the_first_request_comes_is_told_503(self):
        event = invoice(self.webhooks)
        with with_settings(INBOX="postgresql://127.0.0.1:1/nobody_listens"):
            answer = post(self.client, event)
            assert (answer.status_code, answer["retry-after"]) == (503, "5")

    def test_an_answers_headers_are_plain_text(self):
        """Python's own WSGI server, and so `runserver`, takes nothing that is only derived from it."""
        for answer in (post(self.client, invoice(self.webhooks)), self.client.get("/webhooks/stripe")):
            assert {type(value) for value in answer.headers.values()} == {str}

    def test_a_form_reaches_the_verifier_untouched(self):
        event = invoice(self.webhooks)
        headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in event.request.headers}
        headers.pop("HTTP_CONTENT_TYPE")
        answer = self.client.post(
            "/webhooks/stripe",
            event.request.body,
            content_type="application/x-www-form-urlencoded",
            **headers,
        )
        assert answer.status_code == 200

    def test_on_commit_runs_after_the_commit_and_only_then(self):
        self.webhooks.deliver(invoice(self.webhooks, number=1), invoice(self.webhooks, "invoice.bad", number=2))
        assert [notice.invoice for notice in Notice.objects.all()] == ["in_1"]
        assert [payment.invoice for payment in Payment.objects.all()] == ["in_1"]

    def test_concurrent_copies_give_one_payment(self):
        self.webhooks.deliver(invoice(self.webhooks), copies=4, concurrent=True)
        assert Payment.objects.count() == 1

    def test_the_threads_of_a_worker_leave_no_connection_behind(self):
        """One that is left open keeps the test database from being removed, until the collector comes by."""
        opened, paid = [], threading.Event()

        def note(connection, **_):
            if threading.current_thread() is not threading.main_thread():
                opened.append(connection)

        def tell(**_):
            paid.set()

        connection_created.connect(note)
        post_save.connect(tell, sender=Payment)
        box = inbox()
        try:
            self.webhooks.deliver(invoice(self.webhooks), work=False)
            box.worker.start(2)
            assert paid.wait(20)
        finally:
            box.worker.stop()
            connection_created.disconnect(note)
            post_save.disconnect(tell, sender=Payment)
        assert opened, "the worker used no connection of its own"
        assert [each.connection for each in opened] == [None] * len(opened)

    def test_inside_an_atomic_block_it_refuses_to_answer(self):
        with self.assertRaisesMessage(Exception, "outside transaction.atomic"), transaction.atomic():
            self.webhooks.deliver(invoice(self.webhooks))

    def test_inline_mode_works_from_the_same_handlers(self):
        with with_settings(MODE="inline"):
            webhooks = self.enterContext(Webhooks(inbox()))
            event = invoice(webhooks)
            answer = post(self.client, event)
            assert (answer.status_code, answer["hooklane-outcome"]) == (200, "applied")
        assert Payment.objects.count() == 1

    def test_the_command_works_on_replays_prunes_counts_and_advises(self):
        self.webhooks.deliver(invoice(self.webhooks), work=False)
        assert "1 handled" in command("once")
        assert "completed" in command("stats")
        counted = json.loads(command("stats", "--json"))
        assert [(each["status"], each["rows"]) for each in counted["counts"]] == [("completed", 1)]
        assert "0 rows" in command("prune")
        assert "nothing to say" in command("doctor")
        assert "0 to be handled again" in command("replay")
        assert "1 to be handled again" in command("replay", "--status", "completed", "--source", "stripe")
        assert "1 handled" in command("once")
        assert Payment.objects.count() == 2
        assert "0 run in the shadow" in command("replay", "--shadow"), "silence is no report"
        assert "1 run in the shadow" in command("replay", "--shadow", "--status", "completed")
        assert Payment.objects.count() == 2

    def test_a_dead_letter_is_told_by_the_doctor_and_skipped_by_a_person(self):
        with with_settings(SOURCES={"stripe": {"secrets": ["whsec_of_the_shop"], "retry": once()}}):
            webhooks = self.enterContext(Webhooks(inbox()))
            webhooks.deliver(invoice(webhooks, "invoice.bad"))
            with self.assertRaises(SystemExit) as ended:  # noqa: PT027 - not run by pytest
                command("doctor")
            assert ended.exception.code == 1
            assert "1 skipped" in command("skip", "--note", "nobody needs it")

    def test_a_mistake_of_the_command_line_is_one_line(self):
        for words in (["worker", "--threads", "0"], ["replay", "--status", "gone"], ["dance"]):
            with self.assertRaises(CommandError):  # noqa: PT027 - as above
                command(*words)


class Checks(TestCase):
    def messages(self, **changes):
        with with_settings(**changes):
            return {each.id: each.msg for each in run_checks(tags=["hooklane"])}

    def test_a_project_that_is_well_has_nothing_to_fix(self):
        assert self.messages() == {}

    def test_wrong_settings_are_named(self):
        for changes, words in [
            ({"SORCES": {}}, "'SORCES' is not a setting"),
            ({"INBOX": "nowhere"}, "no alias of DATABASES"),
            ({"MODE": "later"}, "mode must be"),
            ({"SOURCES": {"stripe": {"secrets": []}}}, "needs secrets"),
            ({"SOURCES": {"stripe": {"secret": "x"}}}, "secret"),
            ({"SOURCES": {"strip": {"secrets": ["x"]}}}, "did you mean stripe"),
            ({"SOURCES": ["stripe"]}, "SOURCES must be a dict"),
            ({"WORKER": "yes"}, "WORKER must be"),
            ({"EMIT": 7}, "EMIT"),
        ]:
            with self.subTest(changes):
                assert words in self.messages(**changes)["hooklane.E001"]

    def test_a_handler_without_a_source_and_a_source_without_a_handler_are_told(self):
        found = self.messages(SOURCES={"github": {"secrets": ["a secret that is long"]}})
        assert "handlers for 'stripe'" in found["hooklane.E003"]
        assert "'github' has no handler" in found["hooklane.W001"]

    def test_an_async_handler_is_told_because_the_orm_has_no_transaction_for_it(self):
        async def later(event, tx): ...

        before = len(REGISTERED)
        try:
            REGISTERED.append(Registered("stripe", later, (), {}))
            assert "'Checks.test_an_async" in self.messages()["hooklane.E004"]
        finally:
            del REGISTERED[before:]

    def test_a_decorator_without_parentheses_is_refused(self):
        with self.assertRaisesMessage(ImproperlyConfigured, "say for which types"):
            source("stripe").on(lambda event, tx: None)

    def test_an_inline_source_whose_provider_never_retries_is_told(self):
        sources = {**settings.HOOKLANE["SOURCES"], "github": {"secrets": ["a secret that is long"]}}
        assert "never retries" in self.messages(MODE="inline", SOURCES=sources)["hooklane.W002"]

    def test_a_source_that_can_verify_nothing_is_told(self):
        with with_settings(SOURCES={**settings.HOOKLANE["SOURCES"], "paypal": {"secrets": ["WH-1"]}}):
            assert "hooklane.W005" in [message.id for message in run_checks(tags=["hooklane"])]

    def test_no_database_is_opened_for_it(self):
        with self.assertNumQueries(0):
            self.messages()

    def test_a_source_that_the_settings_lack_is_refused_where_it_is_asked_for(self):
        with self.assertRaisesMessage(ImproperlyConfigured, "has no 'github'; it has ['stripe']"):
            source("github")


def once():
    from hooklane.core.admission.failures import RetryPolicy

    return RetryPolicy(attempts_max=1)


def tables():
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        else:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'hooklane'")
        return [row[0] for row in cursor.fetchall()]
