"""The short way of Standard Webhooks: it says yes where the long way does, and nothing else."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.profiles import find_profile
from hooklane.core.signing import Signer, new_key_pair, new_secret
from hooklane.core.verify.check import check
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.reading import Unit, read_instant, write_instant
from hooklane.core.verify.ring import keyring
from hooklane.core.verify.scheme import Signed
from hooklane.core.verify.shared_secret import Algorithm, HmacKey
from hooklane.core.verify.standard import check_standard
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Request

SECRET = new_secret(bytes(range(32)))
SECONDS = 1_700_000_000
NOW = Instant(SECONDS * 1000)
BODY = b'{"type":"order.paid"}'
PROFILE = find_profile("standard_webhooks")


def _long_way(profile: Profile) -> Profile:
    """*profile* with schemes that have no short way."""
    schemes = []
    for scheme in profile.schemes:
        assert isinstance(scheme, Signed)
        plain = replace(scheme)
        object.__setattr__(plain, "standard", None)
        schemes.append(plain)
    return replace(profile, schemes=tuple(schemes))


LONG = _long_way(PROFILE)


def signed(
    id: str = "msg_1", stamp: str = str(SECONDS), body: bytes = BODY, secret: str = SECRET, prefix: str = "webhook"
) -> Request:
    mac = Signer([SigningKey(secret)]).sign(id, int(stamp), body).decode()
    headers = ((f"{prefix}-id", id), (f"{prefix}-timestamp", stamp), (f"{prefix}-signature", mac))
    return Request("POST", "http://127.0.0.1/x", headers, body)


def verdict(
    request: Request, profile: Profile, *, now: Instant = NOW, tolerance_ms: int | None = None
) -> Proof | tuple[str, str]:
    try:
        proof = check(request, profile, keyring(profile, [SECRET], tolerance_ms=tolerance_ms), now)
    except VerificationError as error:
        return error.reason, str(error)
    return replace(proof, scheme=PROFILE.schemes[profile.schemes.index(proof.scheme)])


@pytest.mark.parametrize("prefix", ["webhook", "svix", "Webhook"])
def test_what_is_signed_as_the_standard_says_takes_the_short_way(prefix: str) -> None:
    scheme = next(each for each in PROFILE.schemes if isinstance(each, Signed) and prefix.lower() in str(each.source))
    assert isinstance(scheme, Signed)
    assert scheme.standard is not None
    (held,) = keyring(PROFILE, [SECRET]).of(scheme)
    proof = check_standard(scheme, scheme.standard, signed(prefix=prefix), held, None, NOW)

    assert Proof(scheme, 0, {"id": "msg_1"}, NOW) == proof


texts = st.one_of(st.just(""), st.text(max_size=6), st.sampled_from(["v1,", "v1a,", " ", ",", "=", ".", "\u0661", "0"]))


@given(st.integers(0, 2), texts, st.integers(0, 60), st.booleans(), st.integers(-400_000, 400_000))
def test_both_ways_say_the_same_about_a_request_that_was_touched(
    which: int, inserted: str, at: int, twice: bool, off_ms: int
) -> None:
    request = signed()
    name, value = request.headers[which]
    headers = list(request.headers)
    headers[which] = (name, value[:at] + inserted + value[at:])
    if twice:
        headers.append((name.upper(), value))
    touched = Request("POST", request.url, tuple(headers), BODY)
    now = Instant(NOW + off_ms)

    assert verdict(touched, LONG, now=now) == verdict(touched, PROFILE, now=now)


@given(st.integers(-400_000, 400_000), st.sampled_from([None, 0, 60_000, 300_000]))
def test_both_ways_have_the_same_window(off_ms: int, tolerance_ms: int | None) -> None:
    now = Instant(NOW + off_ms)
    long, short = (verdict(signed(), each, now=now, tolerance_ms=tolerance_ms) for each in (LONG, PROFILE))

    assert long == short


def test_a_request_that_is_signed_for_several_keys_goes_the_long_way_and_is_accepted() -> None:
    other = new_secret(b"o" * 32)
    request = signed()
    both = f"{signed(secret=other).headers[2][1]} {request.headers[2][1]}"
    rotated = Request("POST", request.url, (*request.headers[:2], ("webhook-signature", both)), BODY)

    assert isinstance(verdict(rotated, PROFILE), Proof)


def test_a_source_with_several_secrets_does_not_tell_by_time_which_one_it_was() -> None:
    other = new_secret(b"o" * 32)
    scheme = PROFILE.schemes[0]

    assert len(keyring(PROFILE, [other, SECRET]).of(scheme)) == 2, "the short way is for one"
    assert check(signed(), PROFILE, keyring(PROFILE, [other, SECRET]), NOW).secret == 1


def test_only_the_shape_of_the_standard_has_a_short_way() -> None:
    assert [isinstance(scheme, Signed) and scheme.standard is not None for scheme in PROFILE.schemes] == [
        True,
        False,
        True,
        False,
    ]
    stripe = find_profile("stripe").schemes[0]
    assert isinstance(stripe, Signed)
    assert stripe.standard is None
    assert new_key_pair(b"p" * 32).public.startswith("whpk_"), "v1a is a signature of another kind"


@given(
    st.binary(min_size=1, max_size=300),
    st.lists(st.binary(max_size=200), max_size=4),
    st.sampled_from(["sha1", "sha256", "sha512"]),
)
def test_a_key_makes_the_codes_of_the_standard_library(secret: bytes, pieces: list[bytes], digest: str) -> None:
    expected = hmac.digest(secret, b"".join(pieces), digest)
    key = HmacKey(secret, Algorithm(f"hmac-{digest}"))

    assert expected == key.mac(pieces) == key.mac(pieces)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_that_was_written_is_read_to_the_millisecond(at: int) -> None:
    assert at == read_instant(write_instant(Instant(at), Unit.ISO), Unit.ISO)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01 00:00:00", 1_767_225_600_000),
        ("2026-01-01t02:00:00.1239999+02:00", 1_767_225_600_123),
        ("2026-01-01T02:00:00.123456789+0200", 1_767_225_600_123),
        ("2026-01-01T00:00:00.Z", None),
        ("2026-01-01T00:00:00.1234567890Z", None),
        ("2026-01-01T00:00:00Z ", None),
        ("2026-01-01T00:00:60Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-01-01", None),
        ("2026-01-01T00:00:00+2", None),
        ("2026-01-01T00:00:00" + "0" * 100_000, None),
        ("\u0662026-01-01T00:00:00Z", None),
    ],
)
def test_a_time_is_read_strictly(text: str, expected: int | None) -> None:
    assert expected == read_instant(text, Unit.ISO)
