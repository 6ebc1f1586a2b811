"""The worked example: created times out twice, updated waits, the other key flows on, a copy has no effect."""

import http.client
from collections.abc import Callable
from typing import Any

import standardwebhooks
from tests.processes.acceptance.conftest import SECRET, Client, Shop, blocked
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.receiver import Request, Sink

Serve = Callable[..., tuple[Child, Client]]

TIMEOUT_MS = 400
BACKOFF_MS = 300
LATE_S = 0.5
"""How late a busy machine may be; the schedule itself is checked to be kept from below exactly."""


def endpoint(client: Client, shop: Shop, **fields: Any) -> Any:
    body = {
        "url": shop.url,
        "secret": SECRET,
        "timeout_ms": TIMEOUT_MS,
        "backoff_ms": BACKOFF_MS,
        "attempts_max": 4,
        **fields,
    }
    return client.call("POST", "/api/v1/endpoints", body)


def test_a_timed_out_event_holds_back_its_key_and_no_other(serve: Serve, shop: Shop):
    _, client = serve()
    endpoint(client, shop)
    shop.door(hang={"A #1": 2})

    assert client.publish("order.created", "A")["lanes"][0]["seq"] == 1
    assert client.publish("order.updated", "A")["lanes"][0]["seq"] == 2
    assert client.publish("payment.settled", "B")["lanes"][0]["seq"] == 1

    settled = shop.arrived("B #1", 200)
    released = shop.arrived("A #2", 200)
    created = shop.arrived("A #1", 200)
    first, second, third = shop.arrivals("A #1")

    # The other key did not wait for anything.
    assert settled["at"] < second["at"]
    # Retries come after the timeout and the doubled wait, each with up to a quarter more.
    for before, after, wait_ms in ((first, second, BACKOFF_MS), (second, third, 2 * BACKOFF_MS)):
        waited_s = after["at"] - before["at"]
        assert (
            (TIMEOUT_MS + wait_ms) / 1000 - 0.02 <= waited_s <= (TIMEOUT_MS + 1.25 * wait_ms) / 1000 + scaled_s(LATE_S)
        )
    assert [one["attempt"] for one in (first, second, third)] == [1, 2, 3]
    # Updated was not sent before created was acked, and then at once.
    assert third == created
    assert len(shop.arrivals("A #2")) == 1
    assert created["at"] < released["at"] < created["at"] + scaled_s(LATE_S)
    assert shop.effects("A") == [("order.created", 1), ("order.updated", 2)]
    assert shop.effects("B") == [("payment.settled", 1)]


def test_a_copy_of_an_event_is_answered_200_and_has_no_effect(serve: Serve, shop: Shop, sink: Sink):
    _, client = serve()
    endpoint(client, shop)
    # The same event also goes to a plain server, whose copy of the request is then posted again, byte for byte.
    client.call("POST", "/api/v1/endpoints", {"url": sink.url("/orders"), "secret": SECRET})
    client.publish("order.created", "A")
    shop.arrived("A #1", 200)
    [copy] = sink.wait_for(1)

    statuses = [post(shop, copy) for _ in range(3)]

    assert statuses == [(200, b'{"status":"already_processed"}')] * 3
    assert shop.effects("A") == [("order.created", 1)]


def post(shop: Shop, request: Request) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", int(shop.url.split(":")[2].split("/")[0]), timeout=scaled_s(5))
    headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
    connection.request("POST", "/orders", request.body, headers)
    response = connection.getresponse()
    answer = response.status, response.read().replace(b" ", b"")
    connection.close()
    return answer


def test_a_poison_event_blocks_its_key_until_it_is_replayed(serve: Serve, shop: Shop):
    _, client = serve()
    endpoint(client, shop, attempts_max=3, backoff_ms=20)
    shop.door(refuse=["C"])
    client.publish("order.created", "C")
    client.publish("order.updated", "C")

    lane = blocked(client, "C")
    client.publish("order.created", "D")
    shop.arrived("D #1", 200)

    assert (lane["head"], lane["waiting"], lane["reason"], lane["attempts"]) == (1, 1, "422", 3)
    assert shop.arrivals("C #2") == []
    shop.door()
    client.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/replay")
    shop.arrived("C #2", 200)
    assert shop.effects("C") == [("order.created", 1), ("order.updated", 2)]


def test_a_skipped_event_never_arrives_and_its_key_goes_on(serve: Serve, shop: Shop):
    _, client = serve()
    endpoint(client, shop, attempts_max=2, backoff_ms=20)
    shop.door(refuse=["C"])
    for type_ in ("order.created", "order.updated", "order.paid"):
        client.publish(type_, "C")
    lane = blocked(client, "C")
    shop.door()

    client.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "customer cancelled"})

    shop.arrived("C #3", 200)
    assert shop.effects("C") == [("order.updated", 2), ("order.paid", 3)]
    until(lambda: client.get("/api/v1/overview")["ledger"]["skipped"] == 1, what="the skipped event to be counted")


def test_a_plain_server_gets_all_headers_and_a_signature_that_verifies_independently(serve: Serve, sink: Sink):
    _, client = serve()
    made = client.call("POST", "/api/v1/endpoints", {"url": sink.url("/hook?a=1"), "headers": {"X-Shop": "7"}})
    event = client.publish("order.created", "order:7/ключ", {"id": 7, "price": "1.50"})
    loose = client.call("POST", "/api/v1/events", {"type": "ping", "data": None})
    requests = {request.headers["webhook-id"]: request for request in sink.wait_for(2)}

    request = requests[event["id"]]
    verified = standardwebhooks.Webhook(made["secret"]).verify(request.body, dict(request.headers))
    assert verified == {
        "id": event["id"],
        "type": "order.created",
        "timestamp": event["created_at"],
        "key": "order:7/ключ",
        "seq": 1,
        "prev_seq": 0,
        "data": {"id": 7, "price": "1.50"},
    }
    assert (request.method, request.path) == ("POST", "/hook?a=1")
    expected = {
        "webhook-id": event["id"],
        "idempotency-key": event["id"],
        "x-key": "order:7/%D0%BA%D0%BB%D1%8E%D1%87",
        "x-seq": "1",
        "x-prev-seq": "0",
        "x-attempt": "1",
        "content-type": "application/json",
        "x-shop": "7",
        "host": f"127.0.0.1:{sink.port}",
    }
    assert {name: request.headers[name] for name in expected} == expected
    assert request.headers["webhook-timestamp"].isdigit()
    assert request.headers["webhook-signature"].startswith("v1,")
    assert request.headers["user-agent"].startswith("hooklane/")
    without_order = requests[loose["id"]]
    standardwebhooks.Webhook(made["secret"]).verify(without_order.body, dict(without_order.headers))
    assert not {"x-key", "x-seq", "x-prev-seq"} & set(without_order.headers)
