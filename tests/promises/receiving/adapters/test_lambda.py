"""The receiver in AWS Lambda, with the shapes of event that its front doors send."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import pytest

from hooklane import Inbox, Reply
from hooklane.aws_lambda import handler
from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.testing.build_request import build_request

SECRET = "whsec_" + "a secret of an example, long enough"


@pytest.fixture
def applied():
    return []


@pytest.fixture
def handle(applied):
    inbox = Inbox("memory://", mode="inline")

    @inbox.source("stripe", secrets=[SECRET]).on("*")
    def paid(event, tx):
        applied.append(event.id)

    return handler(inbox)


@pytest.fixture
def request_():
    return build_request(find_profile("stripe"), [SECRET], "invoice.paid", {"object": {}}, id="evt_1", at=wall_now())


def function_url(request):
    return {
        "version": "2.0",
        "rawPath": "/webhooks/stripe",
        "rawQueryString": "",
        "headers": dict(request.headers),
        "requestContext": {"http": {"method": "POST", "path": "/webhooks/stripe"}},
        "body": base64.b64encode(request.body).decode(),
        "isBase64Encoded": True,
    }


def rest_api(request):
    return {
        "httpMethod": "POST",
        "path": "/webhooks/stripe",
        "headers": dict(request.headers),
        "multiValueHeaders": {name: [value] for name, value in request.headers},
        "queryStringParameters": None,
        "body": request.body.decode(),
        "isBase64Encoded": False,
    }


def load_balancer(request):
    return {
        "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:…"}},
        "httpMethod": "POST",
        "path": "/webhooks/stripe",
        "queryStringParameters": {},
        "headers": {**dict(request.headers), "host": "app.test"},
        "body": request.body.decode(),
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("shape", [function_url, rest_api, load_balancer])
def test_an_event_is_applied_once_however_it_came_in(handle, applied, request_, shape):
    first = handle(shape(request_), None)
    again = handle(shape(request_), None)

    assert (first["statusCode"], json.loads(first["body"])) == (200, {"status": "ok"})
    assert (again["statusCode"], json.loads(again["body"])) == (200, {"status": "already_processed"})
    assert applied == ["evt_1"]
    assert first["headers"]["hooklane-outcome"] == "applied"


@pytest.mark.parametrize("event", [{}, {"version": "2.0"}, {"httpMethod": "POST", "path": "/x", "body": 7}])
def test_what_is_not_an_http_event_is_answered_and_not_raised(handle, event):
    assert handle(event, None)["statusCode"] == 400


def test_a_body_that_is_not_base64_is_refused(handle, request_):
    assert handle({**function_url(request_), "body": "%%%"}, None)["statusCode"] == 400


def url_seen(event):
    """The URL of the request that a Lambda event stands for: some providers sign it."""
    seen = []

    class Seeing:
        retention = SimpleNamespace(is_function=False)

        def receive(self, request, source):
            seen.append(request.url)
            return Reply(200)

    handler(Seeing())(event, None)
    return seen[0]


def test_the_url_is_the_one_that_was_called(request_):
    gateway = {
        **rest_api(request_),
        "headers": {"Host": "app.test"},
        "multiValueHeaders": {"Host": ["app.test"]},
        "requestContext": {"path": "/prod/webhooks/stripe"},
        "multiValueQueryStringParameters": {"a": ["1 2", "3"]},
    }
    balancer = {**load_balancer(request_), "queryStringParameters": {"a": "1%202"}}
    url = {**function_url(request_), "headers": {"host": "app.test"}, "rawQueryString": "a=1%202&a=3"}

    assert url_seen(gateway) == "https://app.test/prod/webhooks/stripe?a=1+2&a=3"
    assert url_seen(balancer) == "https://app.test/webhooks/stripe?a=1%202"
    assert url_seen(url) == "https://app.test/webhooks/stripe?a=1%202&a=3"
