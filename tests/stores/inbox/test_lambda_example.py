"""The example for AWS Lambda, run as it is, against DynamoDB Local."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.tree import ROOT

from hooklane.core.profiles import find_profile
from hooklane.model.clock import Instant, wall_now
from hooklane.store.dynamodb.store import by_url
from hooklane.testing.build_request import build_request
from hooklane.testing.conformance_inbox import together

APP = ROOT / "examples" / "lambda_dynamodb" / "app.py"
SECRET = "whsec_" + "a secret of an example that is long enough"


@pytest.fixture
def app(dynamodb_inbox_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    store = by_url(dynamodb_inbox_url)
    client, table = store._table.client(), f"payments-{store.table}"
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    for name, value in (("INBOX_URL", dynamodb_inbox_url), ("PAYMENTS_TABLE", table), ("STRIPE_SECRETS", SECRET)):
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("lambda_example", APP)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.payments = lambda: {
        item["id"]["S"]: int(item["cents"]["N"]) for item in client.scan(TableName=table)["Items"]
    }
    yield module
    module.inbox.close()
    client.delete_table(TableName=table)
    store.close()


def _nothing(buffer: Any) -> Iterator[Any]:
    yield from ()


def paid(event_id: str, cents: int) -> dict[str, Any]:
    """What a function URL hands to the function when Stripe calls it."""
    data = {"object": {"customer": "cus_1", "amount_paid": cents}}
    request = build_request(find_profile("stripe"), [SECRET], "invoice.paid", data, id=event_id, at=wall_now())
    return {
        "version": "2.0",
        "rawPath": "/webhooks/stripe",
        "rawQueryString": "",
        "headers": dict(request.headers),
        "requestContext": {"http": {"method": "POST", "path": "/webhooks/stripe"}},
        "body": base64.b64encode(request.body).decode(),
        "isBase64Encoded": True,
    }


def test_a_payment_is_booked_once_however_often_and_however_quickly_stripe_sends_it(app: Any) -> None:
    first = paid("evt_1", 700)
    answers = together(5, lambda _: app.handler(first, None))
    other = app.handler(paid("evt_2", 300), None)
    again = app.handler(first, None)

    assert {answer["statusCode"] for answer in answers} <= {200, 503}, "applied, a duplicate, or told to come back"
    assert other["statusCode"] == 200
    assert json.loads(again["body"]) == {"status": "already_processed"}
    assert app.payments() == {"payment#evt_1": 700, "payment#evt_2": 300, "balance#cus_1": 1000}


def test_the_scheduled_worker_finishes_what_a_crash_left_behind(app: Any) -> None:
    class Crash(BaseException):
        pass

    def crash(point: str) -> None:
        if point == "after_handler":
            raise Crash

    app.inbox.runner.failpoint = crash
    rollback, app.inbox.store.roll_back = app.inbox.store.roll_back, _nothing  # as if the power went
    with pytest.raises(Crash):
        app.handler(paid("evt_1", 700), None)
    app.inbox.runner.failpoint, app.inbox.store.roll_back = None, rollback
    assert app.payments() == {}
    app.inbox.context = replace(app.inbox.context, clock=lambda: Instant(wall_now() + 61_000))

    assert app.worker({}, None) == {"handled": 1}
    assert app.payments() == {"payment#evt_1": 700, "balance#cus_1": 700}
