"""Endpoints over HTTP: what is set, what is refused, and that no path lets a bad URL in."""

from typing import Any

import pytest
import standardwebhooks
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink

BASE = "/api/v1/endpoints"
PUBLIC = "https://hooks.example.com/in"


async def test_a_new_endpoint_has_the_defaults_of_the_contract_and_its_secret_once(api: Api):
    made = await api.endpoint(PUBLIC)
    shown = await api.get(f"{BASE}/{made['id']}")

    assert made["id"].startswith("ep_")
    assert shown["breaker"]["state"] == "closed"
    assert made["secret"].startswith("whsec_")
    assert "secret" not in shown
    assert made["secret"] not in str(shown)
    defaults = {
        "order": "key",
        "on_dead": "block",
        "timeout_ms": 20_000,
        "backoff_ms": 1_000,
        "backoff_cap_ms": 3_600_000,
        "attempts_max": 35,
        "in_flight_max": 64,
        "rate_limit": None,
        "payload": "envelope",
        "state": "active",
    }
    assert {name: shown[name] for name in defaults} == defaults


async def test_all_settings_can_be_given(api: Api):
    wanted = {
        "name": "shop",
        "types": ["order.*", "payment.settled"],
        "order": "global",
        "on_dead": "skip",
        "rate_limit": 12.5,
        "in_flight_max": 3,
        "timeout_ms": 500,
        "attempts_max": 5,
        "backoff_ms": 10,
        "backoff_cap_ms": 100,
        "payload": "raw",
    }

    made = await api.endpoint(PUBLIC, **wanted)

    assert {name: made[name] for name in wanted} == wanted


async def test_endpoints_are_listed_oldest_first(api: Api):
    first = await api.endpoint(PUBLIC)
    second = await api.endpoint(PUBLIC)

    assert [one["id"] for one in (await api.get(BASE))["items"]] == [first["id"], second["id"]]


BAD_URLS = [
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "https://user:pass@good.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://good.example/#x",
    " https://good.example/",
    "https://good.example:22/",
    "https://",
    "",
    "https://good.example/" + "a" * 3000,
    "http://①②⑦.⓪.⓪.①/",
]


async def test_a_url_that_deliveries_may_not_go_to_is_refused_on_create_and_on_change(api: Api):
    good = await api.endpoint(PUBLIC)
    for url in BAD_URLS:
        created = await api.call("POST", BASE, {"url": url})
        changed = await api.call("PATCH", f"{BASE}/{good['id']}", {"url": url})

        assert (created.status, created.code) == (422, "url_not_allowed"), url
        assert (changed.status, changed.code) == (422, "url_not_allowed"), url
        assert (await api.get(f"{BASE}/{good['id']}"))["url"] == PUBLIC, url


async def test_plain_http_to_a_name_is_judged_when_it_is_resolved_where_the_operator_has_opened_the_loopback(api: Api):
    made = await api.endpoint("http://127.0.0.2.example.com/")

    assert (await api.call("PATCH", f"{BASE}/{made['id']}", {"url": "http://127.0.0.3.example.com/"})).status == 200


async def test_without_the_operators_list_no_loopback_url_is_taken_and_the_text_tells_nothing(start: Any):
    api = await start(egress_allow=())
    answers = [
        await api.call("POST", BASE, {"url": url})
        for url in ("http://127.0.0.1:8000/", "http://10.1.2.3/", "http://192.168.0.1/", "http://169.254.169.254/")
    ]

    assert {answer.code for answer in answers} == {"url_not_allowed"}
    assert len({answer.body for answer in answers}) == 1


OUT_OF_BOUNDS: list[tuple[str, Any]] = [
    ("timeout_ms", 0),
    ("timeout_ms", 10**9),
    ("attempts_max", 0),
    ("attempts_max", 2**63),
    ("in_flight_max", -1),
    ("backoff_ms", 0),
    ("backoff_cap_ms", 1),
    ("rate_limit", 0),
    ("rate_limit", -3),
    ("rate_limit", 1e12),
    ("rate_limit", 5e-324),
    ("rate_limit", 0.0009),
    ("in_flight_max", 10**30),
    ("types", ["*" * 30 + "z"]),
    ("name", "x" * 201),
    ("name", "a\u0007b"),
    ("types", ["order created"]),
    ("types", ["x"] * 1 + [f"t{n}" for n in range(101)]),
    ("secret", "whsec_"),
    ("secret", "whsec_c2hvcnQ="),
    ("secret", "plain"),
    ("headers", {"X-A": "a\r\nX-Injected: 1"}),
    ("headers", {"X-A\r\nX-B": "1"}),
    ("headers", {"X:A": "1"}),
    ("headers", {"": "1"}),
    ("headers", {"X-A": "nul\u0000"}),
    ("headers", {"X-A": "é"}),
    ("headers", {"X-A": " padded"}),
    ("headers", {"Host": "evil.example"}),
    ("headers", {"content-length": "0"}),
    ("headers", {"Transfer-Encoding": "chunked"}),
    ("headers", {"Connection": "close"}),
    ("headers", {"Webhook-Id": "x"}),
    ("headers", {"webhook-anything": "x"}),
    ("headers", {"X-Seq": "1"}),
    ("headers", {"Authorization": "a", "authorization": "b"}),
]


async def test_a_setting_out_of_bounds_is_refused_by_its_name(api: Api):
    for field, value in OUT_OF_BOUNDS:
        answer = await api.call("POST", BASE, {"url": PUBLIC, field: value})

        assert (answer.status, answer.code) == (422, "invalid_endpoint"), (field, value)
        assert {error["field"] for error in answer.json["errors"]} == {field}, (field, value)
    assert (await api.get(BASE))["items"] == []


async def test_all_faults_are_told_at_once(api: Api):
    answer = await api.call("POST", BASE, {"url": PUBLIC, "attempts_max": 0, "rate_limit": 0, "headers": {"Host": "x"}})

    assert {error["field"] for error in answer.json["errors"]} == {"attempts_max", "rate_limit", "headers"}


OTHER_SHAPES: list[Any] = [
    {},
    {"url": 5},
    {"url": PUBLIC, "order": "sideways"},
    {"url": PUBLIC, "colour": "red"},
    [],
    {"url": PUBLIC, "types": 1},
]


async def test_another_shape_is_refused(api: Api):
    for body in OTHER_SHAPES:
        answer = await api.call("POST", BASE, body)

        assert (answer.status, answer.code) == (422, "invalid_body"), body


async def test_a_change_touches_what_it_names_and_nothing_else(api: Api):
    made = await api.endpoint(PUBLIC, name="shop", attempts_max=7)

    changed = await api.call("PATCH", f"{BASE}/{made['id']}", {"name": "shop 2", "rate_limit": 5})
    cleared = await api.call("PATCH", f"{BASE}/{made['id']}", {"rate_limit": None})

    assert (changed.json["name"], changed.json["rate_limit"], changed.json["attempts_max"]) == ("shop 2", 5, 7)
    assert cleared.json["rate_limit"] is None


async def test_order_and_payload_never_change(api: Api):
    made = await api.endpoint(PUBLIC)

    answers = [
        await api.call("PATCH", f"{BASE}/{made['id']}", field) for field in ({"order": "none"}, {"payload": "raw"})
    ]

    assert [(answer.status, answer.code) for answer in answers] == [(422, "immutable_field")] * 2


async def test_nothing_is_lost_by_a_pause(api: Api, sink: Sink, endpoint: dict[str, Any]):
    paused = await api.call("POST", f"{BASE}/{endpoint['id']}/pause")
    for number in range(3):
        await api.publish(data=number, key="k")
    [lane] = (await api.get("/api/v1/lanes"))["items"]

    assert paused.json["state"] == "paused"
    assert (lane["state"], lane["waiting"]) == ("paused", 2)
    assert (await api.get("/api/v1/lanes?state=paused"))["items"] == [lane]
    assert (await api.get("/api/v1/lanes?state=active"))["items"] == []
    assert sink.requests == []

    await api.call("POST", f"{BASE}/{endpoint['id']}/resume")

    assert [request.headers["x-seq"] for request in await sink.arrived(3)] == ["1", "2", "3"]


async def test_after_a_rotation_both_secrets_verify_until_the_overlap_ends(
    api: Api, sink: Sink, endpoint: dict[str, Any]
):
    rotated = await api.call("POST", f"{BASE}/{endpoint['id']}/rotate", {"overlap_s": 3600})
    await api.publish(key="k")
    [request] = await sink.arrived(1)

    for secret in (endpoint["secret"], rotated.json["secret"]):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))

    again = await api.call("POST", f"{BASE}/{endpoint['id']}/rotate", {"overlap_s": 0})
    await api.publish(key="k")
    request = (await sink.arrived(2))[1]

    standardwebhooks.Webhook(again.json["secret"]).verify(request.body, dict(request.headers))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(rotated.json["secret"]).verify(request.body, dict(request.headers))
    assert len(again.json["secrets"]) == 1


async def test_an_overlap_is_at_most_seven_days(api: Api, endpoint: dict[str, Any]):
    answer = await api.call("POST", f"{BASE}/{endpoint['id']}/rotate", {"overlap_s": 7 * 86_400 + 1})

    assert (answer.status, answer.code) == (422, "invalid_endpoint")


async def test_a_test_event_goes_out_at_once_and_touches_no_lane(api: Api, sink: Sink, endpoint: dict[str, Any]):
    sink.react = lambda _: Answer(status=201, body=b"<script>hello</script>", headers={"hooklane-outcome": "applied"})

    answer = await api.call("POST", f"{BASE}/{endpoint['id']}/test", {"type": "order.created", "data": {"n": 1}})

    [request] = sink.requests
    standardwebhooks.Webhook(endpoint["secret"]).verify(request.body, dict(request.headers))
    assert (answer.json["ok"], answer.json["status"], answer.json["outcome"]) == (True, 201, "applied")
    assert request.headers["x-key"] == f"test:{answer.json['event']}"  # on a key of its own, where it is the first
    assert request.headers["x-seq"] == "1"
    assert (await api.get("/api/v1/lanes"))["items"] == []
    assert (await api.get("/api/v1/events"))["items"] == []


async def test_a_probe_says_whether_anybody_is_there(api: Api, sink: Sink, endpoint: dict[str, Any]):
    nobody = await api.endpoint("http://127.0.0.1:9/")
    sink.react = lambda _: Answer(status=500)

    there = await api.call("POST", f"{BASE}/{endpoint['id']}/probe")
    gone = await api.call("POST", f"{BASE}/{nobody['id']}/probe")

    assert (there.json["reachable"], there.json["ok"], there.json["status"]) == (True, False, 500)
    assert (gone.json["reachable"], gone.json["failure"]) == (False, "connect")


@pytest.mark.parametrize("action", ["test", "probe"])
async def test_a_url_that_is_no_longer_allowed_is_refused_by_test_and_probe(start: Any, sink: Sink, action: str):
    open_to_us = await start()
    endpoint = await open_to_us.endpoint(sink.url())
    closed = await start(egress_allow=(), role=("api",))

    answer = await closed.call("POST", f"{BASE}/{endpoint['id']}/{action}")

    assert (answer.status, answer.code) == (422, "url_not_allowed")
    assert sink.requests == []


async def test_a_deleted_endpoint_takes_nothing_new_and_can_not_be_changed(api: Api, sink: Sink):
    endpoint = await api.endpoint(sink.url())
    deleted = await api.call("DELETE", f"{BASE}/{endpoint['id']}")
    published = await api.publish(key="k")

    assert (deleted.status, deleted.body) == (204, b"")
    assert published["lanes"] == []
    answer = await api.call("PATCH", f"{BASE}/{endpoint['id']}", {"name": "back"})
    assert answer.status in (404, 409)


async def test_a_cancelled_backlog_is_on_the_ledger(api: Api, endpoint: dict[str, Any]):
    await api.call("POST", f"{BASE}/{endpoint['id']}/pause")
    for _ in range(3):
        await api.publish(key="k")

    assert (await api.call("DELETE", f"{BASE}/{endpoint['id']}?backlog=cancel")).status == 204

    async def cancelled() -> bool:
        return (await api.get("/api/v1/overview"))["ledger"]["cancelled"] == 3

    await eventually(cancelled)


async def test_backlog_is_drain_or_cancel(api: Api, endpoint: dict[str, Any]):
    answer = await api.call("DELETE", f"{BASE}/{endpoint['id']}?backlog=burn")

    assert (answer.status, answer.code) == (422, "invalid_parameter")


CALLS = [
    ("GET", ""),
    ("PATCH", ""),
    ("DELETE", ""),
    *(("POST", f"/{act}") for act in ("pause", "resume", "rotate", "test", "probe")),
]


async def test_an_unknown_endpoint_is_not_found_by_any_call(api: Api):
    for method, path in CALLS:
        answer = await api.call(method, f"{BASE}/ep_nobody{path}", {} if method in ("PATCH", "POST") else None)

        assert (answer.status, answer.code) == (404, "not_found"), (method, path)


@pytest.mark.parametrize("call", ["test", "probe"])
async def test_a_receiver_that_shows_the_request_does_not_show_our_secrets_through_a_trial(
    api: Api, sink: Sink, call: str
):
    # Not a 2xx: of that the headers alone are waited for, and the body may be missing.
    sink.react = lambda seen: Answer(
        status=500, headers={"hooklane-outcome": "tok_9876543210"}, body=f"{seen.path} {seen.raw_headers}".encode()
    )
    one = await api.endpoint(
        sink.url("/hook?token=tok_9876543210"), headers={"authorization": "Bearer hush_0123456789"}
    )
    answer = await api.call("POST", f"/api/v1/endpoints/{one['id']}/{call}")

    assert answer.status == 200
    assert b"hush_0123456789" not in answer.body
    assert b"tok_9876543210" not in answer.body
    assert "***" in answer.json["body"]


async def test_a_change_that_repeats_what_cannot_be_changed_is_taken(api: Api):
    made = await api.endpoint(PUBLIC, order="none", payload="raw")
    changed = await api.call("PATCH", f"{BASE}/{made['id']}", {"order": "none", "payload": "raw", "name": "new"})
    refused = await api.call("PATCH", f"{BASE}/{made['id']}", {"order": "key"})

    assert (changed.status, changed.json["name"]) == (200, "new")
    assert (refused.status, refused.code) == (422, "immutable_field")


async def test_a_header_that_comes_back_hidden_as_it_was_shown_keeps_its_value(api: Api, sink: Sink):
    headers = {"Authorization": "Bearer one", "X-Shop": "seven"}
    made = await api.endpoint(sink.url(), headers=headers)
    shown = await api.get(f"{BASE}/{made['id']}")

    answer = await api.call("PATCH", f"{BASE}/{made['id']}", {"headers": {**shown["headers"], "X-Shop": "eight"}})
    await api.publish()
    [request] = await eventually(lambda: _requests(sink))

    assert (answer.status, set(shown["headers"].values())) == (200, {"***"})
    assert (request.headers["authorization"], request.headers["x-shop"]) == ("Bearer one", "eight")


async def test_a_query_that_comes_back_hidden_is_kept_on_its_host_and_never_saved_as_it_was_shown(api: Api, sink: Sink):
    made = await api.endpoint(f"{sink.url()}?token=t0k3n")
    path, public = f"{BASE}/{made['id']}", f"{PUBLIC}?token=t0k3n"

    moved = await api.call("PATCH", path, {"url": f"{sink.url()}/other?***"})
    elsewhere = await api.call("PATCH", path, {"url": f"{PUBLIC}?***"})
    created = await api.call("POST", BASE, {"url": f"{PUBLIC}?***"})
    given = await api.call("PATCH", path, {"url": public})

    shown = (await api.call("POST", f"{path}/reveal")).json
    assert (moved.status, moved.json["url"]) == (200, f"{sink.url()}/other?***")
    assert [(one.status, one.code) for one in (elsewhere, created)] == [(422, "invalid_endpoint")] * 2
    assert (given.status, shown["url"]) == (200, public)


async def test_header_values_that_a_key_may_not_see_are_not_sent_to_another_host_by_it(api: Api, sink: Sink):
    made = await api.endpoint(PUBLIC, headers={"Authorization": "Bearer one"})
    key = (await api.call("POST", "/api/v1/keys", {"name": "op", "scopes": ["operate", "read"]})).json["key"]
    path = f"{BASE}/{made['id']}"

    async with api.connect({"authorization": f"Bearer {key}"}) as operator:
        seen = await operator.call("POST", f"{path}/reveal")
        refused = [
            await operator.call("PATCH", path, {"url": sink.url(), **more})
            for more in ({}, {"headers": {"Authorization": "***"}}, {"headers": {"Authorization": "***", "x": "y"}})
        ]
        same_host = await operator.call("PATCH", path, {"url": f"{PUBLIC}/other"})
        given = await operator.call("PATCH", path, {"url": sink.url(), "headers": {"Authorization": "Bearer two"}})
    back = await api.call("PATCH", path, {"url": PUBLIC})

    assert seen.status == 403
    assert {(one.status, one.code) for one in refused} == {(422, "invalid_endpoint")}
    assert "give the values of Authorization anew" in refused[0].json["detail"]
    assert [one.status for one in (same_host, given, back)] == [200, 200, 200], "who may see them may move them"


async def _requests(sink: Sink) -> list[Any]:
    return list(sink.requests)


async def test_a_hidden_value_that_stands_for_nothing_is_refused(api: Api):
    made = await api.endpoint(PUBLIC, headers={"X-Shop": "seven"})
    changed = await api.call("PATCH", f"{BASE}/{made['id']}", {"headers": {"X-Other": "***"}})
    created = await api.call("POST", BASE, {"url": PUBLIC, "headers": {"X-Shop": "***"}})

    assert [(one.status, one.code) for one in (changed, created)] == [(422, "invalid_endpoint")] * 2
    assert "X-Other" in changed.json["detail"]


async def test_an_answer_does_not_repeat_a_name_as_long_as_the_body(api: Api):
    answer = await api.call("POST", BASE, {"url": PUBLIC, "k" * 200_000: 1})

    assert (answer.status, answer.code) == (422, "invalid_body")
    assert len(str(answer.json)) < 2_000
