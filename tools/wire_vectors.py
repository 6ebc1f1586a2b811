"""The test vectors of the wire protocol, made by the code that sends: `python -m tools.wire_vectors` writes them.

docs/reference/wire-protocol.md says what they mean. A test fails when the file is not what this makes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.judge import RetryPolicy, judge
from hooklane.core.signing import Signer, new_key_pair, new_secret
from hooklane.core.wire import body_of, headers_of, quote_key
from hooklane.model.attempt import Dead, Delivered, Gone, Retry
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, Order, Payload, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Failure, NoAnswer, Timings

FILE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "wire-vectors.json"

PUBLISHED_AT = Instant(1_750_000_000_123)
SENT_AT = Instant(1_750_000_007_500)
SECRET = new_secret(hashlib.sha256(b"a secret that everybody knows").digest())
OLD_SECRET = new_secret(hashlib.sha256(b"the secret before it").digest())
PAIR = new_key_pair(hashlib.sha256(b"a seed that everybody knows").digest())
ORDER = b'{"order":7,"total":19.90}'
ODD = '{ "n" : 1.0e2, "s":"\\u00e9é",\n "big":12345678901234567890}'.encode()
ALMOST_ONE = 1.0 - 2**-53
"""The largest roll of the dice that decides about the jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One delivery: the event, its place in a lane (none without *seq*), and how the endpoint wants it."""

    name: str
    key: str | None = "order:7"
    seq: int | None = 1
    prev_seq: int = 0
    event_key: str | None = None
    data: bytes = ORDER
    payload: Payload = Payload.ENVELOPE
    attempt: int = 1
    at: Instant = SENT_AT
    replay_of: str | None = None
    signs: tuple[str, ...] = (SECRET,)
    verify_with: tuple[str, ...] = field(default=(SECRET,))


CASES = (
    Case(name="the first event of a key"),
    Case(name="the second attempt: other timestamp and signature, same body", attempt=2, at=Instant(SENT_AT + 1_150)),
    Case(name="the next event of the key", seq=2, prev_seq=1),
    Case(name="after seq 3 and 4 were skipped: prev_seq names the last one that was acknowledged", seq=5, prev_seq=2),
    Case(name="a key that is not ASCII", key='Zürich/100% "a"', seq=12, prev_seq=11),
    Case(name="data is passed on byte for byte", data=ODD),
    Case(name="data need not be an object", data=b"null"),
    Case(name="no key: no place in any order", key=None, seq=None),
    Case(name="an endpoint with order=none: the key is not sent", key=None, seq=None, event_key="order:7"),
    Case(name="an endpoint with order=global: one lane, *", key="*", seq=40, prev_seq=39, event_key="order:7"),
    Case(name="order=global, and an event without a key of its own", key="*", seq=41, prev_seq=40),
    Case(name="payload=raw: the body is the data alone", payload=Payload.RAW),
    Case(name="published again after a skip", seq=9, prev_seq=8, replay_of="evt_06a4qsxq0vskipped"),
    Case(name="a secret is rotated: one signature for each", signs=(SECRET, OLD_SECRET), verify_with=(OLD_SECRET,)),
    Case(name="Ed25519", signs=(PAIR.private,), verify_with=(PAIR.public,)),
    Case(name="from HMAC to Ed25519", signs=(PAIR.private, SECRET), verify_with=(SECRET,)),
)  # fmt: skip


def vectors() -> dict[str, Any]:
    """Everything that the file holds."""
    deliveries = [_delivery(case) for case in CASES]
    return {
        "about": "Made by tools/wire_vectors.py from the code that sends; see wire-protocol.md.",
        "keys": {"whsec": SECRET, "whsec_before": OLD_SECRET, "whsk": PAIR.private, "whpk": PAIR.public},
        "deliveries": deliveries,
        "refused": [*_refused(deliveries[0]), *_refused_ed25519(*deliveries[14:16])],
        "header_keys": [{"key": key, "x_key": quote_key(key).decode()} for key in HEADER_KEYS],
        "turns": [_turn(*place) for place in TURNS],
        "answers": [_answer(**answer) for answer in ANSWERS],
    }


def _delivery(case: Case) -> dict[str, Any]:
    event_key = case.event_key or (None if case.key == "*" else case.key)
    event = Event("evt_06a4qsxq0v7k2m9p4r", "order.paid", event_key, case.data, PUBLISHED_AT, replay_of=case.replay_of)
    place: dict[str, Any] = {"key": case.key, "seq": case.seq, "prev_seq": case.prev_seq}
    order = Order.GLOBAL if case.key == "*" else Order.KEY
    body = body_of(event, case.payload, order=order, **place)
    signature = Signer([SigningKey(secret) for secret in case.signs]).sign(event.id, case.at // 1000, body, case.at)
    lines = headers_of(event, **place, attempt=case.attempt, now=case.at, signature=signature).decode().splitlines()
    return {
        "name": case.name,
        "verify_with": list(case.verify_with),
        "now": case.at // 1000,
        "headers": dict(line.split(": ", 1) for line in lines),
        "body": body.decode(),
    }


def _refused(good: dict[str, Any]) -> list[dict[str, Any]]:
    """Requests that a consumer must answer with 401, each one change away from a good one."""
    signature = good["headers"]["webhook-signature"]

    def changed(name: str, *, headers: dict[str, str | None] | None = None, **fields: Any) -> dict[str, Any]:
        merged = {**good["headers"], **(headers or {})}
        kept = {header: value for header, value in merged.items() if value is not None}
        return {**good, "name": name, **fields, "headers": kept}

    return [
        changed("one byte of the body is another", body=good["body"].replace("19.90", "10.90")),
        changed("the same JSON, written anew", body=json.dumps(json.loads(good["body"]))),
        changed("the id is another", headers={"webhook-id": "evt_another"}),
        changed("the timestamp is another", headers={"webhook-timestamp": str(good["now"] + 1)}),
        changed("it is older than five minutes", now=good["now"] + 301),
        changed("it is more than five minutes ahead", now=good["now"] - 301),
        changed("the secret is another", verify_with=[OLD_SECRET]),
        changed("a public key does not verify an HMAC", verify_with=[PAIR.public]),
        changed("the version is unknown", headers={"webhook-signature": signature.replace("v1,", "v2,")}),
        changed("an HMAC is called Ed25519", headers={"webhook-signature": signature.replace("v1,", "v1a,")}),
        changed("half a signature", headers={"webhook-signature": signature[:20]}),
        changed("no signature in the header", headers={"webhook-signature": ""}),
        changed("no signature header", headers={"webhook-signature": None}),
        changed("no id header", headers={"webhook-id": None}),
        changed("no timestamp header", headers={"webhook-timestamp": None}),
        changed("the timestamp is no whole number", headers={"webhook-timestamp": f"{good['now']}.5"}),
    ]


def _refused_ed25519(alone: dict[str, Any], beside: dict[str, Any]) -> list[dict[str, Any]]:
    signature, hmac = alone["headers"]["webhook-signature"], beside["headers"]["webhook-signature"].split(" ")[1]

    def signed(name: str, value: str) -> dict[str, Any]:
        return {**alone, "name": name, "headers": {**alone["headers"], "webhook-signature": value}}

    return [
        {**alone, "name": "Ed25519: one byte of the body is another", "body": alone["body"].replace("19.90", "10.90")},
        {**alone, "name": "Ed25519: a secret does not verify it", "verify_with": [SECRET]},
        signed("Ed25519: half a signature", signature[:47]),
        signed("Ed25519: an HMAC that fits, under its name", hmac.replace("v1,", "v1a,")),
        signed("Ed25519: called HMAC", signature.replace("v1a,", "v1,")),
    ]


HEADER_KEYS = ("order:7", "a b", "100%", "%41", "Zürich", "~!*'()", "é\u0301/日本", '"quoted"', "[a]<b>{c}|d\\e^f`g")

# seq, prev_seq, and the last seq that the consumer applied
TURNS = ((1, 0, 0), (2, 1, 1), (1, 0, 1), (1, 0, 5), (3, 2, 1), (5, 4, 0), (5, 2, 2), (5, 2, 1), (5, 2, 3), (3, 0, 0))


def _turn(seq: int, prev_seq: int, applied: int) -> dict[str, Any]:
    turn = whose_turn(seq=seq, prev_seq=prev_seq, applied=applied)
    answer: dict[str, Any] = {"status": 200}
    if turn is Turn.EARLY:
        answer = {"status": 409, "headers": {"webhook-expected-seq": str(applied + 1)}}
    return {"seq": seq, "prev_seq": prev_seq, "applied": applied, "turn": str(turn), "answer": answer}


_DEFAULTS = Endpoint(id="ep_1", url="https://example.com/hooks", created_at=PUBLISHED_AT)
POLICY = RetryPolicy(_DEFAULTS.attempts_max, _DEFAULTS.backoff_ms, _DEFAULTS.backoff_cap_ms)
ANSWERS: tuple[dict[str, Any], ...] = (
    *({"status": status} for status in (200, 202, 204, 299)),
    *({"status": status} for status in (301, 400, 401, 404, 409, 413, 422, 500, 502)),
    {"status": 500, "attempt": 2},
    {"status": 500, "attempt": 5},
    {"status": 500, "attempt": 13},
    {"status": 500, "attempt": 34},
    {"status": 500, "attempt": 35},
    {"status": 410},
    {"status": 429, "headers": {"Retry-After": "30"}},
    {"status": 503, "headers": {"Retry-After": "30"}},
    {"status": 503, "headers": {"Retry-After": "Sun, 15 Jun 2025 15:07:07 GMT"}},
    {"status": 503, "headers": {"Retry-After": "0"}},
    {"status": 503, "headers": {"Retry-After": "soon"}},
    {"status": 503, "headers": {"Retry-After": "999999999"}},
    {"status": 500, "headers": {"Retry-After": "30"}},
    {"status": 409, "headers": {"webhook-expected-seq": "8"}},
    {"status": 409, "headers": {"webhook-expected-seq": "7"}},
    {"status": 409, "headers": {"webhook-expected-seq": "4"}},
    {"status": 409, "headers": {"webhook-expected-seq": "9"}},
    {"status": 409, "headers": {"webhook-expected-seq": "8"}, "seq": None},
    {"status": 503, "headers": {"webhook-expected-seq": "4"}},
    *({"failure": str(failure)} for failure in ("dns", "connect", "tls", "timeout", "reset", "bad_response")),
)


def _answer(
    *,
    status: int | None = None,
    failure: str | None = None,
    headers: dict[str, str] | None = None,
    seq: int | None = 7,
    attempt: int = 1,
) -> dict[str, Any]:
    """What the sender makes of an answer to *seq*, with the defaults of an endpoint."""
    told = headers or {}
    result: Answer | NoAnswer
    if status is None:
        result = NoAnswer(Failure(failure), Timings(0.0), sent=True)
    else:
        result = Answer(status, Timings(0.0), told.get("Retry-After"), told.get("webhook-expected-seq"))
    said: dict[str, Any] = {"failure": failure} if status is None else {"status": status, "headers": told}
    least, most = (
        judge(result, seq=seq, attempt=attempt, policy=POLICY, now=SENT_AT, roll=roll) for roll in (0.0, ALMOST_ONE)
    )
    match least, most:
        case Delivered(), _:
            means: dict[str, Any] = {"outcome": "delivered"}
        case Gone(), _:
            means = {"outcome": "retry", "endpoint": "disabled"}
        case Dead(reason=reason), _:
            means = {"outcome": "dead", "reason": reason}
        case Retry(at=soonest, reason=reason), Retry(at=latest):
            means = {"outcome": "retry", "reason": reason, "wait_ms": [soonest - SENT_AT, latest - SENT_AT]}
    return {"seq": seq, "attempt": attempt, **said, "now_ms": SENT_AT, "means": means}


def written() -> str:
    """The text of the file."""
    return json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(written(), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
