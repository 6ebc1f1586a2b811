"""Signature attacks V1-V20 (V13-V16 are about the inbox): exact input, safe outcome."""

from __future__ import annotations

import base64
import hmac
import json
import math
import time
import unicodedata

import pytest
from tests.support.pace import scaled_s

from hooklane.core.profiles import find_profile
from hooklane.core.signing import Signer, new_key_pair, new_secret
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.messages import Poison
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Message, Request

SECRET = new_secret(bytes(range(32)))
OTHER = new_secret(b"o" * 32)
PAIR = new_key_pair(b"p" * 32)
SECONDS = 1_700_000_000
NOW = Instant(SECONDS * 1000)
ID = "msg_1"
BODY = b'{"type":"order.paid","data":{"total":10,"name":"caf\xc3\xa9"}}\n'
PROFILE = find_profile("standard_webhooks")
KEYS = keyring(PROFILE, [SECRET, PAIR.public])


def signature(body: bytes = BODY, event_id: str = ID, seconds: int = SECONDS, secret: str = SECRET) -> str:
    return Signer([SigningKey(secret)]).sign(event_id, seconds, body).decode()


GOOD = signature()
GOOD_V1A = signature(secret=PAIR.private)
RAW = base64.b64decode(GOOD.removeprefix("v1,"))


def request(
    sign: str = GOOD,
    *,
    event_id: str = ID,
    seconds: str = str(SECONDS),
    body: bytes = BODY,
    more: tuple[tuple[str, str], ...] = (),
) -> Request:
    headers = (("webhook-id", event_id), ("webhook-timestamp", seconds), ("webhook-signature", sign), *more)
    return Request("POST", "/hooks", headers, body)


def reason(inbound: Request, keys=KEYS, now: Instant = NOW) -> str | None:
    """Why *inbound* is refused; None when it is accepted. Any other exception fails the test."""
    try:
        open_request(inbound, PROFILE, keys, now, source="s")
    except VerificationError as refusal:
        return refusal.reason
    return None


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def mac(text: bytes) -> str:
    return "v1," + b64(hmac.digest(bytes(range(32)), text, "sha256"))


def test_the_untouched_request_is_accepted():
    assert reason(request()) is None
    assert reason(request(GOOD_V1A)) is None


def test_v1_an_empty_signature_is_refused():
    assert reason(request("v1,")) == "malformed"
    assert reason(request("v1a,")) == "malformed"


@pytest.mark.parametrize("size", [0, 1, 16, 31])
def test_v2_a_truncated_signature_is_refused(size):
    assert reason(request("v1," + b64(RAW[:size]))) == "malformed"


@pytest.mark.parametrize("raw", [RAW + b"\0", RAW + RAW, RAW + b"\0" * 32])
def test_v2_a_lengthened_signature_is_refused(raw):
    assert reason(request("v1," + b64(raw))) == "malformed"


@pytest.mark.parametrize(
    "text",
    ["v1", ",", "v1,a,b", "", " ", "v1 ", ",,,", "v1,a,b " * 16, " ".join([GOOD] * 20_000), "v1," + "A" * 2**20],
)
def test_v3_a_malformed_header_is_refused_quickly(text):
    inbound = request(text)
    took: list[float] = []
    for _ in range(5):  # the best of five, as another process may take the core away
        before = time.perf_counter()
        assert reason(inbound) == "malformed"
        took.append(time.perf_counter() - before)

    assert min(took) < scaled_s(0.005)


@pytest.mark.parametrize("text", ["zzz {}", "v2,x v1a,y {}", "{} {}", "v1,AAAA {}", "  {}", "v1," + "A" * 43 + "= {}"])
def test_v4_unknown_and_wrong_entries_beside_a_good_one_are_skipped(text):
    assert reason(request(text.format(GOOD, GOOD))) is None


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "!!",
        "v1,!!" + GOOD[3:],
        GOOD[:10] + "!!" + GOOD[10:],
        GOOD.rstrip("="),
        GOOD.replace("+", "-").replace("/", "_") if "+" in GOOD or "/" in GOOD else "v1,-_",
        GOOD + "\n",
        GOOD + "\t",
        GOOD + "=",
        GOOD + "\u00a0",
        GOOD + "\0",
        "v1, " + GOOD[3:],
        "V1," + GOOD[3:],
        "ｖ1," + GOOD[3:],
    ],
)
def test_v5_only_the_strict_spelling_of_base64_is_read(text):
    assert reason(request(text)) == "malformed"


def test_v5_stray_bits_at_the_end_of_base64_are_refused():
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = GOOD[-2]
    other = alphabet[alphabet.index(last) ^ 1]  # decodes to the same bytes
    assert base64.b64decode(GOOD[3:-2] + other + "=") == RAW

    assert reason(request(GOOD[:-2] + other + "=")) == "malformed"


def test_v6_a_signature_under_the_other_algorithms_name_is_refused():
    assert reason(request("v1a," + GOOD[3:])) == "malformed"
    assert reason(request("v1," + GOOD_V1A[4:])) == "malformed"


def test_v6_a_public_key_is_never_used_as_a_shared_secret():
    forged = signature(secret="whsec_" + PAIR.public.removeprefix("whpk_"))

    assert reason(request(forged), keyring(PROFILE, [PAIR.public])) == "malformed"
    assert reason(request(forged)) == "mismatch"


@pytest.mark.parametrize(("off", "expected"), [(-301, "stale"), (301, "stale"), (-299, None), (299, None), (300, None)])
def test_v7_the_window_is_five_minutes_both_ways(off, expected):
    seconds = SECONDS + off

    assert reason(request(signature(seconds=seconds), seconds=str(seconds))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "1e9",
        "+1700000000",
        " 1700000000 ",
        "1700000000 ",
        "1_700_000_000",
        "١٧٠٠٠٠٠٠٠٠",
        "１７００００００００",
        "1700000000.9",
        "0x6553f100",
        "-1",
        "nan",
        "inf",
        "1" * 40,
        "",
        "1700000000\n",
        "²",
    ],
)
def test_v8_a_timestamp_is_digits_and_nothing_else(text):
    sign = mac(f"{ID}.{text}.".encode() + BODY)  # rightly signed, even

    assert reason(request(sign, seconds=text)) == "malformed"


@pytest.mark.parametrize(
    "event_id",
    [
        "msg.1",
        "",
        "m" * 129,
        "m" * 10_000,
        "msg\0",
        "msg\n",
        unicodedata.normalize("NFC", "é"),
        unicodedata.normalize("NFD", "é"),
        "../x",
        "' OR 1=1--",
        "msg 1",
        "ｍsg",
    ],
)
def test_v9_an_id_outside_the_alphabet_is_refused_even_when_it_is_signed(event_id):
    sign = mac(f"{event_id}.{SECONDS}.".encode() + BODY)

    assert reason(request(sign, event_id=event_id)) == "malformed"


def test_v10_a_signed_text_cannot_be_cut_in_another_place():
    inner = f"{SECONDS}.".encode() + BODY
    sign = signature(body=inner, event_id="msg_1", seconds=SECONDS)

    assert reason(request(sign, event_id=f"msg_1.{SECONDS}", body=BODY)) == "malformed"
    assert reason(request(sign, body=BODY)) == "mismatch"


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace(b"10", b"11"),
        BODY.strip(),
        json.dumps(json.loads(BODY)).encode(),
        json.dumps(json.loads(BODY), separators=(",", ":")).encode(),
        BODY.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + BODY,
        BODY.decode().encode("latin-1"),
        BODY.decode().encode("utf-16"),
        b"",
    ],
)
def test_v11_another_spelling_of_the_same_body_is_another_body(body):
    assert reason(request(body=body)) == "mismatch"


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.title])
def test_v12_a_duplicated_header_is_refused_whatever_its_case(name, spelling):
    value = dict(request().headers)[name]

    assert reason(request(more=((spelling(name), value),))) == "malformed"
    assert reason(request(more=((spelling(name), "other"),))) == "malformed"


def test_v12_headers_are_found_in_any_case_and_underscores_are_another_name():
    good = request()
    upper = Request("POST", "/", tuple((name.upper(), value) for name, value in good.headers), BODY)
    under = Request("POST", "/", tuple((name.replace("-", "_"), value) for name, value in good.headers), BODY)

    assert reason(upper) is None
    assert reason(under) == "missing_header"
    assert reason(request(more=(("webhook_id", "evil"),))) is None


def test_the_headers_of_svix_are_accepted_and_never_mixed_with_the_standard_ones():
    captured = Request("POST", "/", tuple((n.replace("webhook", "svix"), v) for n, v in request().headers), BODY)
    with_other_id = Request("POST", "/", (("webhook-id", "msg_evil"), *captured.headers), BODY)

    for inbound in (captured, with_other_id):
        opened = open_request(inbound, PROFILE, KEYS, NOW, source="s")
        assert isinstance(opened, Messages)
        assert [item.event_id for item in opened.items] == [ID]


def test_v17_a_secret_that_was_taken_off_the_ring_no_longer_fits():
    inbound = request(signature(secret=OTHER))

    assert reason(inbound, keyring(PROFILE, [SECRET, OTHER])) is None
    assert reason(inbound, keyring(PROFILE, [SECRET])) == "mismatch"


def test_v18_the_secret_of_another_endpoint_does_not_fit():
    assert reason(request(signature(secret=OTHER))) == "mismatch"


class TestV19Timing:
    """How much of a signature is right must not show in the time that refusing it takes."""

    def test_every_secret_is_compared_with_every_signature_wherever_the_match_is(self, monkeypatch):
        secrets = [new_secret(bytes([n]) * 32) for n in range(4)]
        compared: list[int] = []
        real = __import__("hmac").compare_digest
        monkeypatch.setattr(
            "hooklane.core.verify.keys.hmac.compare_digest", lambda a, b: compared.append(1) or real(a, b)
        )
        for owner in secrets:
            good = signature(secret=owner)
            for entries in ([good, *[f"v1,{b64(bytes(32))}"] * 2], [*[f"v1,{b64(bytes(32))}"] * 2, good]):
                compared.clear()

                assert reason(request(" ".join(entries)), keyring(PROFILE, secrets)) is None
                assert len(compared) == 12

    def test_a_signature_that_is_nearly_right_takes_as_long_as_one_that_is_all_wrong(self):
        wrong = request("v1," + b64(bytes(byte ^ 0xFF for byte in RAW)))
        nearly = request("v1," + b64(RAW[:31] + bytes([RAW[31] ^ 1])))

        # A busy machine may disturb one run; a leak would show in all of them.
        assert min(abs(self._welch(wrong, nearly, 6_000)) for _ in range(3)) < 4.5

    @staticmethod
    def _welch(a: Request, b: Request, rounds: int) -> float:
        times: tuple[list[int], list[int]] = ([], [])
        for number in range(rounds):
            for which in (0, 1) if number % 2 else (1, 0):
                inbound = (a, b)[which]
                start = time.perf_counter_ns()
                reason(inbound)
                times[which].append(time.perf_counter_ns() - start)
        kept = [sorted(each)[: rounds * 9 // 10] for each in times]  # without the interruptions
        means = [sum(each) / len(each) for each in kept]
        spreads = [sum((x - m) ** 2 for x in each) / len(each) for each, m in zip(kept, means, strict=True)]
        return (means[0] - means[1]) / math.sqrt(sum(s / len(e) for s, e in zip(spreads, kept, strict=True)))


class TestV20:
    """Rightly signed, but not to be parsed: kept as poison, never a crash."""

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            (b"[" * 100_000, "nested"),
            (b"[" * 100_000 + b"]" * 100_000, "nested"),
            (b'{"a":' * 65 + b"1" + b"}" * 65, "nested"),
            (b"9" * 5_000, "number is too long"),
            (b'{"n":' + b"9" * 5_000 + b"}", "number is too long"),
            (b'{"n":0.' + b"9" * 5_000 + b"}", "number is too long"),
            (b'{"n":1e999}', "out of range"),
            (b"NaN", "NaN"),
            (b'{"n":NaN}', "NaN"),
            (b'{"n":-Infinity}', "Infinity"),
            (b'{"s":"\\ud800"}', "surrogate"),
            (b'{"\\udfff":1}', "surrogate"),
            (b'{"s":"\xff"}', "not UTF-8"),
            (b"\xff\xfe{\0}\0", "not UTF-8"),
            (b'{"a":1,"a":2}', "same key twice"),
            (b'{"a":{"b":1,"b":1}}', "same key twice"),
            (b'{"a":1', "not JSON"),
            (b"{'a':1}", "not JSON"),
            (b"", "not JSON"),
            (b'"text"', "not an object"),
            (b"null", "not an object"),
            (b"7", "not an object"),
            (b'{"a":1}{"b":2}', "not JSON"),
        ],
    )
    def test_the_signature_holds_and_the_body_is_poison_under_its_signed_id(self, body, why):
        opened = open_request(request(signature(body), body=body), PROFILE, KEYS, NOW, source="s")

        assert isinstance(opened, Messages)
        (item,) = opened.items
        assert isinstance(item, Poison)
        assert why in item.reason
        assert (ID, body, "s") == (item.event_id, item.body, item.source)

    @pytest.mark.parametrize("many", [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
    def test_a_million_keys_are_read_and_not_a_crash(self, many):
        body = b"{" + b",".join(b'"%d":0' % n for n in range(many)) + b"}"

        opened = open_request(request(signature(body), body=body), PROFILE, KEYS, NOW, source="s")

        assert isinstance(opened, Messages)
        assert isinstance(opened.items[0], Message)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"type":"\\ud83d\\ude00"}',
            b'{"type":"a\\u0000b"}',
            b'{"type":["x"]}',
            b'{"type":{"x":1}}',
            b'{"type":"' + b"x" * 10_000 + b'"}',
            b'{"timestamp":"yesterday"}',
            b'{"timestamp":99999999999999999999999999999999}',
            b'{"timestamp":true}',
            b"[]",
            b"{}",
            b'{"n":123456789012345678901234567890}',
        ],
    )
    def test_odd_values_are_read_without_a_crash(self, body):
        opened = open_request(request(signature(body), body=body), PROFILE, KEYS, NOW, source="s")

        assert isinstance(opened, Messages)
        (item,) = opened.items
        assert isinstance(item, Message)
        assert len(item.type) <= 255
        assert "\0" not in item.type
        assert len(item.fingerprint) == 32


def test_traps_17_a_request_without_any_signature_is_refused_and_not_a_type_error():
    for profile in (PROFILE, find_profile("sportsstack"), find_profile("smartcar")):
        keys = KEYS if profile is PROFILE else keyring(profile, ["secret"])
        for headers in ((), (("x-sportsstack-signature", "é"), ("sc-signature", "\udcff"))):
            with pytest.raises(VerificationError):
                open_request(Request("POST", "/", headers, BODY), profile, keys, NOW, source="s")


def test_traps_20_nothing_is_parsed_before_it_is_verified(monkeypatch):
    def trap(_: bytes) -> None:
        raise AssertionError("parsed before verified")

    monkeypatch.setattr("hooklane.core.verify.messages.read_json", trap)

    assert reason(request(body=b"{}")) == "mismatch"


def test_traps_32_key_and_seq_come_from_the_signed_body_and_never_from_headers():
    profile = find_profile("hooklane")
    body = b'{"id":"msg_1","type":"t","timestamp":"2023-11-14T22:13:20.000Z","key":"A","seq":7,"prev_seq":5,"data":{}}'
    inbound = request(signature(body), body=body, more=(("X-Key", "B"), ("X-Seq", "99"), ("X-Prev-Seq", "98")))

    opened = open_request(inbound, profile, keyring(profile, [SECRET]), NOW, source="s")

    assert isinstance(opened, Messages)
    (item,) = opened.items
    assert isinstance(item, Message)
    assert (item.key, item.seq, item.prev_seq, item.event_time) == ("A", 7, 5, NOW)


@pytest.mark.parametrize(
    "body",
    [
        b'{"key":"A","seq":7,"prev_seq":6,"type":"x"}',
        b'{"id":"other","type":"t","timestamp":"2023-11-14T22:13:20.000Z","key":"A","seq":7,"data":{}}',
    ],
)
def test_a_raw_payload_that_looks_like_an_envelope_gets_no_order_from_it(body):
    profile = find_profile("hooklane")

    opened = open_request(request(signature(body), body=body), profile, keyring(profile, [SECRET]), NOW, source="s")

    assert isinstance(opened, Messages)
    (item,) = opened.items
    assert isinstance(item, Message)
    assert (item.key, item.seq, item.prev_seq) == (None, None, None)


@pytest.mark.parametrize(
    "members",
    ['"key":"A","seq":"7"', '"key":"A","seq":-1', '"key":"A","seq":true', '"key":"A","seq":7.0', '"seq":7'],
)
def test_an_envelope_with_a_seq_that_cannot_be_is_poison(members):
    profile = find_profile("hooklane")
    body = b'{"id":"msg_1","type":"t","timestamp":"2023-11-14T22:13:20.000Z",%b,"data":{}}' % members.encode()

    opened = open_request(request(signature(body), body=body), profile, keyring(profile, [SECRET]), NOW, source="s")

    assert isinstance(opened, Messages)
    assert isinstance(opened.items[0], Poison)


@pytest.mark.parametrize("key", ["order:1", "ключ", "a b", "\u3000", "\u200b", "🛒", "x" * 255, "ü" * 127])
def test_any_key_that_the_sender_may_use_comes_through_whole(key):
    profile = find_profile("hooklane")
    envelope = {"id": ID, "type": "t", "timestamp": "2023-11-14T22:13:20.000Z", "key": key, "seq": 1, "prev_seq": 0}
    body = json.dumps({**envelope, "data": 1}).encode()

    opened = open_request(request(signature(body), body=body), profile, keyring(profile, [SECRET]), NOW, source="s")

    assert isinstance(opened, Messages)
    (item,) = opened.items
    assert isinstance(item, Message)
    assert key == item.key


def test_a_refusal_never_tells_the_secret_the_body_or_the_expected_signature():
    for inbound in (
        request(body=b"changed"),
        request("v1,"),
        request(seconds="x"),
        request(more=(("webhook-id", "x"),)),
    ):
        with pytest.raises(VerificationError) as refusal:
            open_request(inbound, PROFILE, KEYS, NOW, source="s")

        said = f"{refusal.value} {refusal.value!r}"
        assert not any(hidden in said for hidden in (SECRET, SECRET[6:], "changed", GOOD[3:], "order.paid"))
    assert SECRET not in repr(KEYS)
    assert not isinstance(KEYS, Handshake)
