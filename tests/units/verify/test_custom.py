"""A provider that we do not ship is described in a few words, with the same strictness."""

from __future__ import annotations

import hmac

import pytest

from hooklane.core.verify.custom import profile_of, signature_scheme, token_scheme
from hooklane.core.verify.messages import DERIVED, Poison
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.profile import Dedup, Grade
from hooklane.core.verify.ring import keyring
from hooklane.errors import UsageError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Message, Request

AT = Instant(1_700_000_000_000)
BODY = b'{"event":{"hash":"h1","kind":"odds"},"n":1}'


def read(profile, headers: dict[str, str], body: bytes = BODY, **options):
    opened = open_request(
        Request.of("POST", "/h", headers, body), profile, keyring(profile, ["s"], **options), AT, source="s"
    )
    assert isinstance(opened, Messages)
    return opened.items


def mac(text: bytes) -> str:
    return hmac.digest(b"s", text, "sha256").hex()


def test_a_plain_signature_over_the_body_with_ids_by_json_path():
    profile = profile_of("acme", scheme=signature_scheme("X-Acme-Sig"), id="event.hash", type="event.kind")

    (message,) = read(profile, {"X-Acme-Sig": mac(BODY)})

    assert isinstance(message, Message)
    assert (message.event_id, message.type, message.id_signed) == ("h1", "odds", True)
    with pytest.raises(VerificationError):
        read(profile, {"X-Acme-Sig": mac(BODY + b" ")})


def test_a_signed_header_is_a_proven_id_and_an_unsigned_one_is_not():
    signed = signature_scheme("X-Sig", message="{header:X-Id}.{timestamp}.{body}", timestamp="X-Time")
    bare = signature_scheme("X-Sig")
    headers = {"X-Id": "e1", "X-Time": "1700000000"}

    (proven,) = read(
        profile_of("acme", scheme=signed, id="header:X-Id"), {**headers, "X-Sig": mac(b"e1.1700000000." + BODY)}
    )
    (claimed,) = read(profile_of("acme", scheme=bare, id="header:X-Id"), {**headers, "X-Sig": mac(BODY)})

    assert (proven.event_id, proven.id_signed) == ("e1", True)
    assert (claimed.event_id, claimed.id_signed) == ("e1", False)
    assert profile_of("acme", scheme=bare, id="header:X-Id").grade == Grade.SIGNED_BODY_UNSIGNED_ID


def test_pairs_with_a_time_beside_the_signatures():
    scheme = signature_scheme("X-Sig", message="{timestamp}:{body}", pairs="h1", timestamp="ts", unit="ms")
    profile = profile_of("acme", scheme=scheme, id="event.hash")

    assert read(profile, {"X-Sig": f"ts=1700000000000,h1={mac(b'1700000000000:' + BODY)}"})
    with pytest.raises(VerificationError):
        read(profile, {"X-Sig": f"ts=1600000000000,h1={mac(b'1600000000000:' + BODY)}"})


def test_an_id_may_be_a_function_and_what_it_raises_is_poison_and_not_a_crash():
    profile = profile_of("acme", scheme=signature_scheme("X-Sig"), id=lambda event: event["event"]["hash"] + "!")

    (message,) = read(profile, {"X-Sig": mac(BODY)})
    (poison,) = read(profile, {"X-Sig": mac(b'{"a":1}')}, b'{"a":1}')

    assert message.event_id == "h1!"
    assert isinstance(poison, Poison)
    assert "KeyError" in poison.reason


def test_several_places_are_tried_in_order_and_without_any_the_id_is_derived():
    several = profile_of("acme", scheme=signature_scheme("X-Sig"), id=["eventId", "id", "event.hash"])
    none = profile_of("acme", scheme=signature_scheme("X-Sig"))

    assert read(several, {"X-Sig": mac(BODY)})[0].event_id == "h1"
    assert read(none, {"X-Sig": mac(BODY)})[0].event_id.startswith(DERIVED)
    assert (several.dedup, none.dedup) == (Dedup.EVENT_ID, Dedup.DERIVED)


def test_a_batch_a_key_a_sequence_and_a_token():
    profile = profile_of(
        "acme", scheme=token_scheme("X-Token"), id="i", key="k", seq="s", prev_seq="p", batch="items", order="sequence"
    )

    items = read(profile, {"X-Token": "s"}, b'{"items":[{"i":1,"k":"a","s":2,"p":1},{"i":2,"k":"a","s":3,"p":2}]}')

    assert [(each.event_id, each.key, each.seq, each.prev_seq) for each in items] == [
        ("1", "a", 2, 1),
        ("2", "a", 3, 2),
    ]
    assert profile.grade == Grade.AUTHENTICATED


def test_a_sequence_may_be_in_headers_which_hold_nothing_but_text():
    places = {"id": "event.hash", "key": "header:X-Key", "seq": "header:X-Seq", "prev_seq": "header:X-Prev-Seq"}
    profile = profile_of("acme", scheme=token_scheme("X-Token"), **places)
    lane = {"X-Token": "s", "X-Key": "a"}

    told = [read(profile, {**lane, "X-Seq": seq, "X-Prev-Seq": "6"})[0] for seq in ("7", str(2**63 - 1))]
    wrong = [read(profile, {**lane, "X-Seq": seq})[0] for seq in ("seven", "-7", "7.0", str(2**63), "9" * 5000, "７")]

    assert [(each.key, each.seq, each.prev_seq) for each in told] == [("a", 7, 6), ("a", 2**63 - 1, 6)]
    assert all(isinstance(each, Poison) for each in wrong)


@pytest.mark.parametrize("path", ["data[0].items", "data[0].items.", ".data[0]..items"])
def test_a_batch_may_be_in_a_list_and_its_path_is_read_as_any_other(path):
    profile = profile_of("acme", scheme=token_scheme("X-Token"), id="i", batch=path)

    items = read(profile, {"X-Token": "s"}, b'{"data":[{"items":[{"i":"a"},{"i": "b"}]}]}')

    assert [(each.event_id, each.body) for each in items] == [("a", b'{"i":"a"}'), ("b", b'{"i": "b"}')]


def test_the_method_and_the_url_can_be_signed():
    profile = profile_of("acme", scheme=signature_scheme("X-Sig", message="{method} {url}\n{body}"), id="event.hash")

    assert read(profile, {"X-Sig": mac(b"POST https://a.test/h\n" + BODY)}, url="https://a.test/h")


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: signature_scheme("X", message="{nonsense}"), "{nonsense} is not known"),
        (lambda: signature_scheme("X", message="{timestamp}{body}"), "no timestamp is named"),
        (lambda: signature_scheme("X", encoding="base32"), "base32"),
        (lambda: signature_scheme("X", algorithm="md5"), "md5"),
        (lambda: profile_of("Bad Name", scheme=token_scheme("X")), "Bad Name"),
        (lambda: token_scheme("x token"), "no header can be called 'x token'"),
        (lambda: token_scheme("authorization", prefix="Bearer\n"), "cannot be in a header"),
        (lambda: profile_of("acme", scheme=[]), "no scheme"),
        (lambda: profile_of("acme", scheme=token_scheme("X"), order="sideways"), "sideways"),
    ],
)
def test_a_description_that_cannot_be_is_refused_when_it_is_made(build, problem):
    with pytest.raises(UsageError, match=problem):
        build()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"algorithm": "ed25519"}, "key must be whpk or ed25519-hex"),
        ({"algorithm": "ecdsa-p256-sha256", "key": "hex"}, "key must be spki"),
        ({"algorithm": "hmac-sha512", "key": "ed25519-hex"}, "key must be utf8"),
        ({"key": "token"}, "key must be utf8"),
        ({"algorithm": "rsa-sha256", "key": "certified"}, "certificate"),
        ({"header": ""}, "header"),
        ({"header": "X Sig"}, "header"),
        ({"header": "X-Sig:"}, "header"),
        ({"timestamp": "X Time"}, "header"),
        ({"message": "{header:X Id}.{body}"}, "header"),
        ({"tolerance_ms": 0, "timestamp": "X-Time"}, "tolerance_ms"),
        ({"tolerance_ms": -1, "timestamp": "X-Time"}, "tolerance_ms"),
        ({"pairs": "v1", "timestamp": "v1"}, "the same name"),
        ({"pairs": "v1=x"}, "pairs"),
        ({"pairs": "v1", "timestamp": "t,"}, "pairs"),
        ({"pairs": "v1", "prefix": "sha256="}, "prefix"),
        ({"prefix": "v1 \n"}, "prefix"),
    ],
)
def test_a_scheme_that_can_never_match_is_refused_when_it_is_made(words, problem):
    with pytest.raises(UsageError, match=problem):
        signature_scheme(**{"header": "X-Sig", **words})
