"""What the API tells and takes of deliveries: breakers, key pairs, authorities, headers, and the log of attempts."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.promises.sending.api.conftest import Api
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Request, Sink
from tests.units.transport.certificates import Authority

BASE = "/api/v1/endpoints"


def verify(public: str, request: Request) -> None:
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    headers = request.headers
    signatures = [one for one in headers["webhook-signature"].split(" ") if one.startswith("v1a,")]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    for signature in signatures:
        key.verify(base64.b64decode(signature.removeprefix("v1a,")), signed)
    assert len(signatures) == 1


async def shown(api: Api, endpoint: dict[str, Any]) -> Any:
    return await api.get(f"{BASE}/{endpoint['id']}")


async def until(holds: Any, within_s: float = 20.0) -> Any:
    async with asyncio.timeout(scaled_s(within_s)):
        while True:
            if value := await holds():
                return value
            await asyncio.sleep(0.01)


async def test_an_endpoint_with_a_key_pair_shows_its_public_half_and_keeps_the_other(api: Api, sink: Sink) -> None:
    made = await api.endpoint(sink.url(), signature="v1a")
    await api.publish(key="order:7")
    (request,) = await sink.arrived(1)

    assert made["secret"] is None
    assert made["public_key"].startswith("whpk_")
    assert [one["public_key"] for one in (await shown(api, made))["secrets"]] == [made["public_key"]]
    verify(made["public_key"], request)
    assert "whsk_" not in str(made)


async def test_a_secret_is_rotated_into_a_key_pair_and_both_sign(
    api: Api, sink: Sink, endpoint: dict[str, Any]
) -> None:
    answer = await api.call("POST", f"{BASE}/{endpoint['id']}/rotate", {"signature": "v1a", "overlap_s": 60})
    await api.publish(key="order:7")
    (request,) = await sink.arrived(1)

    assert [one.partition(",")[0] for one in request.headers["webhook-signature"].split(" ")] == ["v1a", "v1"]
    verify(answer.json["public_key"], request)


async def test_an_overlap_is_from_nothing_to_seven_days(api: Api, endpoint: dict[str, Any]) -> None:
    path = f"{BASE}/{endpoint['id']}/rotate"

    assert (await api.call("POST", path, {"overlap_s": -1})).status == 422
    assert (await api.call("POST", path, {"overlap_s": 7 * 24 * 3_600 + 1})).status == 422
    assert (await api.call("POST", path, {"overlap_s": 0})).status == 200
    assert (await api.call("POST", path, {"overlap_s": 7 * 24 * 3_600})).status == 200


async def test_a_rotation_without_overlap_ends_the_old_secret_at_once(
    api: Api, sink: Sink, endpoint: dict[str, Any]
) -> None:
    await api.call("POST", f"{BASE}/{endpoint['id']}/rotate", {"overlap_s": 0})
    await api.publish(key="order:7")
    (request,) = await sink.arrived(1)

    assert len(request.headers["webhook-signature"].split(" ")) == 1
    assert len((await shown(api, endpoint))["secrets"]) == 1


async def test_an_authority_of_its_own_is_taken_shown_and_taken_back(api: Api, sink: Sink) -> None:
    pem = Authority("our own").pem
    made = await api.endpoint(sink.url(), ca_pem=pem)
    back = await api.call("PATCH", f"{BASE}/{made['id']}", {"ca_pem": None})

    assert made["ca_pem"] == pem
    assert back.json["ca_pem"] is None


async def test_what_is_no_certificate_is_refused(api: Api, sink: Sink) -> None:
    for ca_pem in ("", "not a certificate", "-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----", "é"):
        answer = await api.call("POST", BASE, {"url": sink.url(), "ca_pem": ca_pem})

        assert (answer.status, answer.json["errors"][0]["field"]) == (422, "ca_pem"), ca_pem


BAD_HEADERS = [
    {"X-A": "a\r\nX-Injected: 1"},
    {"X-A\r\nX-B": "1"},
    {"X-A:": "1"},
    {"": "1"},
    {"X-A": "nul\x00"},
    {"X-A": "é"},
    *({name: "1"} for name in ("Host", "Content-Length", "transfer-encoding", "Connection", "webhook-id", "X-Seq")),
    {"Authorization": "a", "authorization": "b"},
]


async def test_a_header_that_would_break_or_forge_a_request_is_refused_on_create_and_on_change(
    api: Api, sink: Sink, endpoint: dict[str, Any]
) -> None:
    """J11, J12."""
    for headers in BAD_HEADERS:
        created = await api.call("POST", BASE, {"url": sink.url(), "headers": headers})
        changed = await api.call("PATCH", f"{BASE}/{endpoint['id']}", {"headers": headers})

        assert (created.status, changed.status) == (422, 422), headers
        assert created.json["errors"][0]["field"] == "headers", headers


async def test_a_breaker_shows_in_the_api_in_the_metrics_and_in_why(api: Api, sink: Sink) -> None:
    sink.react = lambda _: Answer(status=503)
    endpoint = await api.endpoint(sink.url(), backoff_ms=20, attempts_max=1_000)
    calm = (await shown(api, endpoint))["breaker"]
    for n in range(30):
        await api.publish(key=f"order:{n}")

    async def is_open() -> Any:
        breaker = (await shown(api, endpoint))["breaker"]
        return breaker if breaker["state"] == "open" else None

    opened = await until(is_open)
    (listed,) = (await api.get(BASE))["items"]
    metrics = (await api.call("GET", "/metrics")).body.decode()
    fresh = await api.publish(key="order:fresh")
    why = await api.get(f"/api/v1/events/{fresh['id']}/why")
    events = (await api.get("/api/v1/dead-letters"))["items"]

    assert calm == {"state": "closed", "until": None}
    assert opened["until"] is not None
    assert listed["breaker"]["state"] in ("open", "probing")
    assert f'hooklane_breaker_state{{endpoint="{endpoint["id"]}"}} 3.0' in metrics
    assert "left alone" in str(why)
    assert events == []


async def test_the_attempts_of_an_event_tell_phases_classes_and_what_the_receiver_did(api: Api, sink: Sink) -> None:
    sink.follow(
        [Answer(status=500, body=b"\x1b[31mno \xe2\x80\xae\xff"), Answer(headers={"hooklane-outcome": "applied"})]
    )
    await api.endpoint(sink.url("/h?token=canary-1234"), backoff_ms=20, headers={"X-Token": "canary-5678"})
    event = await api.publish(key="order:7")

    async def both() -> Any:
        items = (await api.get(f"/api/v1/events/{event['id']}/attempts"))["items"]
        return items if len(items) == 2 else None

    failed, delivered = await until(both)

    assert [re.fullmatch(r"att_[0-9a-z]{26}", one["id"]) is not None for one in (failed, delivered)] == [True, True]
    assert (failed["status"], failed["outcome"], delivered["outcome"]) == (500, "retry", "delivered")
    assert set(failed["detail"]["timings"]) == {"total_ms", "dns_ms", "connect_ms", "tls_ms", "first_byte_ms"}
    assert failed["detail"]["request_head"].startswith("POST http://127.0.0.1")
    assert (delivered["said"], delivered["detail"].keys()) == ("applied", {"request_body", "request_bytes"})
    assert "canary" not in str((failed, delivered))


async def test_ten_keys_of_an_endpoint_sign_at_most_and_the_newest_do(api: Api, sink: Sink):
    endpoint = await api.endpoint(sink.url())
    secrets = [
        (await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/rotate", {})).json["secret"] for _ in range(12)
    ]

    await api.publish()
    [seen] = await sink.arrived(1)
    [stored] = await api.server.services.store.endpoints("default")

    assert len(seen.headers["webhook-signature"].split(" ")) == 10
    assert [key.secret for key in stored.keys] == secrets[:1:-1]
