"""What goes out: the published bytes untouched, every copy the same, and headers that nobody can break."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.wire import body_of, headers_of, quote_key
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Order, Payload
from hooklane.model.event import Event
from hooklane.model.lane import GLOBAL_KEY

NOW = Instant(1_750_000_000_123)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
datas = st.sampled_from([b"{}", b'{ "n" : 1.0e2 }', '{"s":"\\u00e9é"}'.encode(), b"null", b"[1,2]"])


def made(data: bytes, key: str | None = "k", replay_of: str | None = None) -> Event:
    return Event("evt_1", "order.created", key, data, NOW, replay_of=replay_of)


@given(datas, keys, st.integers(1, 10**12), st.integers(0, 10**12))
def test_the_envelope_is_json_with_the_place_of_the_event_and_its_bytes_untouched(
    data: bytes, key: str, seq: int, prev_seq: int
) -> None:
    body = body_of(made(data, key), Payload.ENVELOPE, key=key, seq=seq, prev_seq=prev_seq)

    assert body.endswith(b'"data":' + data + b"}")
    tree = json.loads(body)
    assert (tree["id"], tree["type"], tree["timestamp"]) == ("evt_1", "order.created", "2025-06-15T15:06:40.123Z")
    assert (tree["key"], tree["seq"], tree["prev_seq"]) == (key, seq, prev_seq)
    assert tree["data"] == json.loads(data)


@given(datas, keys)
def test_raw_bodies_are_exactly_the_published_bytes(data: bytes, key: str) -> None:
    assert body_of(made(data, key), Payload.RAW, key=key, seq=7, prev_seq=6) == data


@given(datas)
def test_a_loose_delivery_has_no_place(data: bytes) -> None:
    tree = json.loads(body_of(made(data), Payload.ENVELOPE, key=None, seq=None, prev_seq=None))

    assert tree.keys() == {"id", "type", "timestamp", "data"}


@pytest.mark.parametrize("own", ["order:7", GLOBAL_KEY])
def test_a_global_lane_shows_the_events_own_key(own: str) -> None:
    body = body_of(made(b"{}", own), Payload.ENVELOPE, order=Order.GLOBAL, key=GLOBAL_KEY, seq=1, prev_seq=0)
    tree = json.loads(body)

    assert (tree["key"], tree["event_key"]) == ("*", own)


def test_a_key_that_is_a_star_is_a_key_like_any_other_where_keys_have_lanes_of_their_own() -> None:
    tree = json.loads(body_of(made(b"{}", "*"), Payload.ENVELOPE, key="*", seq=1, prev_seq=0))

    assert "event_key" not in tree


@given(keys, st.integers(1, 10**12), st.integers(1, 100))
def test_headers_are_ascii_lines_and_the_key_can_be_read_back(key: str, seq: int, attempt: int) -> None:
    event = made(b"{}", key, replay_of="evt_0")

    text = headers_of(event, key=key, seq=seq, prev_seq=seq - 1, attempt=attempt, now=NOW, signature=b"v1,x")

    lines = text.decode("ascii").removesuffix("\r\n").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert unquote(headers["X-Key"]) == key
    assert (headers["X-Seq"], headers["X-Prev-Seq"], headers["X-Attempt"]) == (str(seq), str(seq - 1), str(attempt))
    assert headers["webhook-id"] == headers["Idempotency-Key"] == "evt_1"
    assert (headers["webhook-timestamp"], headers["X-Replay-Of"]) == ("1750000000", "evt_0")


def test_a_loose_delivery_names_no_key_and_no_seq() -> None:
    text = headers_of(made(b"{}"), key=None, seq=None, prev_seq=None, attempt=1, now=NOW, signature=b"")

    assert b"X-Key" not in text
    assert b"X-Seq" not in text


@given(keys)
def test_a_percent_sign_is_always_encoded(key: str) -> None:
    quoted = quote_key(key)

    assert quoted.count(b"%") == sum(1 if char == "%" else _escaped(char) for char in key)
    assert all(32 < byte < 127 for byte in quoted)


def _escaped(char: str) -> int:
    return 0 if char.isascii() and quote_key(char) == char.encode() else len(char.encode())
