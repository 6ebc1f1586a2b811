"""`hooklane verify`: the signature doctor on the command line."""

from collections.abc import Callable
from pathlib import Path

from tests.processes.cli.conftest import Ended

from hooklane.core.signing import Signer, new_secret
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import SigningKey

SECRET = new_secret(bytes(range(32)))


def request(body: bytes, signed: bytes | None = None) -> bytes:
    now = wall_now() // 1000
    signature = Signer((SigningKey(SECRET),)).sign("evt_1", now, signed or body)
    return (
        b"POST /hooks HTTP/1.1\r\nhost: shop.example\r\ncontent-type: application/json\r\nwebhook-id: evt_1\r\n"
        b"webhook-timestamp: %d\r\nwebhook-signature: %b\r\ncontent-length: %d\r\n\r\n%b"
        % (now, signature, len(body), body)
    )


BODY = b'{"id":"evt_1","type":"a","timestamp":"2026-01-01T00:00:00.000Z","data":{"x": 1}}'


def test_a_good_request_is_accepted(cli: Callable[..., Ended]):
    Path("request.http").write_bytes(request(BODY))

    ended = cli("verify", "--request", "request.http", "--secret", SECRET)

    assert (ended.code, ended.talk) == (0, [])
    assert "signature: fits the secret" in ended.out


def test_a_rewritten_body_is_named(process: Callable[..., Ended]):
    ended = process(
        "verify", "--json", env={"HOOKLANE_SECRET": SECRET}, stdin=request(BODY, signed=BODY.replace(b" ", b""))
    )

    assert ended.code == 7
    assert ended.json["reason"] == "mismatch"
    assert SECRET not in ended.out + ended.err


def test_what_is_peculiar_to_a_provider_is_told_where_its_request_is_refused(cli: Callable[..., Ended]):
    Path("request.http").write_bytes(request(BODY).replace(b"webhook-id", b"authorization: other\r\nwebhook-id"))

    ended = cli("verify", "--request", "request.http", "--secret", "Bearer x", "--profile", "okta")

    assert ended.code == 7
    assert "Okta: The secret is the whole value of the Authorization header" in ended.out


def test_without_a_secret_it_asks_for_one(cli: Callable[..., Ended]):
    Path("request.http").write_bytes(request(BODY))

    assert cli("verify", "--request", "request.http").code == 2
    assert cli("verify", "--request", "nowhere", "--secret", SECRET).code == 2


def test_an_unknown_profile_is_one_line(cli: Callable[..., Ended]):
    Path("request.http").write_bytes(request(BODY))
    ended = cli("verify", "--request", "request.http", "--secret", SECRET, "--profile", "strpe")

    assert (ended.code, len(ended.talk)) == (2, 1)
    assert "stripe" in ended.err
