"""Which copies does a faulty network make of one delivery, and what does the receiver say to each?

`hooklane send --times --reorder --drop-ack`: correctly signed, straight to a receiver, with no server in between.
"""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from hooklane.cli import output
from hooklane.cli.client import address_of, connection_to, why_unreachable
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import plain, say, show, sign
from hooklane.core.signing import Signer
from hooklane.core.wire import body_of, headers_of
from hooklane.errors import ConfigError
from hooklane.model.clock import wall_now
from hooklane.model.database_url import shown
from hooklane.model.endpoint import Payload, SigningKey
from hooklane.model.event import Event

ANSWER_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Copy:
    """One attempt at the same event, as it comes out of the network."""

    attempt: int
    drops_ack: bool
    """The receiver answers, and the sender never learns what."""


def copies(times: int, *, reorder: bool, drop_ack: bool) -> list[Copy]:
    """The copies in the order of their arrival. Only the last answer survives a network that drops acks."""
    attempts = [*range(1, times + 1)]
    if reorder:
        attempts.reverse()
    return [Copy(attempt, drop_ack and place < times) for place, attempt in enumerate(attempts, start=1)]


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    verdict: str | None
    """A word of `hooklane-outcome`; None from a receiver that is not one of ours."""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class AckDropped:
    """It was answered, and the answer thrown away unread."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    why: str


Outcome = Answered | AckDropped | Unanswered


@dataclass(frozen=True, slots=True)
class SentCopy:
    copy: Copy
    outcome: Outcome
    took_ms: float


class CopySender:
    """Posts copies of one event to one receiver, each on a connection of its own and signed when it leaves."""

    def __init__(self, event: Event, seq: int | None, url: str, secrets: Sequence[str], timeout_s: float) -> None:
        address = address_of(url)
        if address is None:
            raise CallFailed(
                f"--to must be a receiver's URL such as http://127.0.0.1:8000/in, got {shown(url)!r}", Exit.USAGE
            )
        try:
            self._signer = Signer([SigningKey(secret) for secret in secrets])
        except ConfigError as error:
            raise CallFailed(f"the secret cannot sign: {error}", Exit.USAGE) from None
        self.event = event
        self.seq = seq
        self.url = url
        self._address = address
        self._timeout_s = timeout_s
        self._prev_seq = None if seq is None else seq - 1
        self._body = body_of(event, Payload.ENVELOPE, key=event.key, seq=seq, prev_seq=self._prev_seq)

    def post_all(self, wanted: Sequence[Copy], rate: float | None) -> Iterator[SentCopy]:
        """What came of each, as it is known; at most *rate* a second leave."""
        began = time.monotonic()
        for place, copy in enumerate(wanted):
            if rate is not None:
                time.sleep(max(0.0, began + place / rate - time.monotonic()))
            left = time.monotonic()
            outcome = self._post(copy)
            if isinstance(outcome, Unanswered) and place == 0:
                raise CallFailed(f"cannot reach {shown(self.url)}: {outcome.why}", Exit.UNREACHABLE)
            yield SentCopy(copy, outcome, (time.monotonic() - left) * 1000)

    def _post(self, copy: Copy) -> Outcome:
        connection = connection_to(self._address, self._timeout_s)
        target = (self._address.path or "/") + (f"?{self._address.query}" if self._address.query else "")
        try:
            connection.request("POST", target, self._body, self._headers(copy))
            if copy.drops_ack:
                # One byte is waited for, so that the receiver has done its work; the rest is left in the socket.
                return AckDropped() if connection.sock.recv(1) else Unanswered("the connection was closed")
            response = connection.getresponse()
            return Answered(response.status, _verdict(response))
        except (OSError, http.client.HTTPException) as error:
            return Unanswered(why_unreachable(error))
        finally:
            connection.close()

    def _headers(self, copy: Copy) -> dict[str, str]:
        now = wall_now()
        lines = headers_of(
            self.event,
            key=self.event.key,
            seq=self.seq,
            prev_seq=self._prev_seq,
            attempt=copy.attempt,
            now=now,
            signature=self._signer.sign(self.event.id, now // 1000, self._body, now),
        )
        pairs = [line.partition(": ") for line in lines.decode("ascii").splitlines()]
        return {name: value for name, _, value in pairs}


def _verdict(response: http.client.HTTPResponse) -> str | None:
    told = response.getheader("hooklane-outcome")
    if told is not None:
        return told
    try:
        word = msgspec.json.decode(response.read(ANSWER_BYTES_MAX))["status"]
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
        return None
    return "duplicate" if word == "already_processed" else None


def post_and_tell(sender: CopySender, wanted: Sequence[Copy], *, rate: float | None) -> None:
    """One line for each copy as it is answered, then what they come to; the exit code says whether all were taken."""
    event, seq = sender.event, sender.seq
    place = "no order" if seq is None else f"{plain(event.key)} #{seq}"
    done: list[SentCopy] = []
    for sent in sender.post_all(wanted, rate):
        done.append(sent)
        if not output.as_json:
            say(f"{event.id}  {place}  {_line(sent)}")
    value = {"event": event.id, "key": event.key, "seq": seq, "copies": [_object(one) for one in done]}
    show(value, lambda: [summary(done)])
    undone = [one for one in done if not _is_fine(one.outcome)]
    if undone:
        exit_ = Exit.FAILED if len(undone) == len(done) else Exit.PARTLY
        raise CallFailed(f"{_copies(len(undone), len(done))} not accepted by the receiver", exit_)


def _copies(many: int, of: int) -> str:
    return "the copy was" if of == 1 else f"{many} of {of} copies {'was' if many == 1 else 'were'}"


def summary(done: Sequence[SentCopy]) -> str:
    """Such as `1 applied, 2 duplicates suppressed`."""
    counts = Counter(_word(one.outcome) for one in done)
    return ", ".join(f"{many} {_PLURALS.get(word, (word, word))[many > 1]}" for word, many in counts.items())


_PLURALS = {
    "duplicate": ("duplicate suppressed", "duplicates suppressed"),
    "ack dropped": ("ack dropped", "acks dropped"),
}
_REASONS = {"duplicate": "  (suppressed by the receiver)", "ack dropped": "  (answered, and the answer thrown away)"}


def _word(outcome: Outcome) -> str:
    match outcome:
        case Answered(status=status, verdict=verdict):
            return plain(verdict) if verdict else f"answered {status}"
        case AckDropped():
            return "ack dropped"
        case Unanswered():
            return "without an answer"
    assert_never(outcome)


def _is_fine(outcome: Outcome) -> bool:
    return isinstance(outcome, AckDropped) or (isinstance(outcome, Answered) and outcome.is_good)


def _line(sent: SentCopy) -> str:
    outcome = sent.outcome
    match outcome:
        case Answered(status=status, verdict=verdict):
            mark = sign("ok" if outcome.is_good else "failed")
            told = f"{mark} {status} {plain(verdict) if verdict else 'no verdict'}"
        case AckDropped():
            told = f"{sign('unknown')} ack dropped"
        case Unanswered(why=why):
            told = f"{sign('failed')} no answer: {plain(why)}"
        case _:
            assert_never(outcome)
    return f"try {sent.copy.attempt}  {told:<16} {sent.took_ms:>5.0f} ms{_REASONS.get(_word(outcome), '')}"


def _object(sent: SentCopy) -> dict[str, Any]:
    outcome = sent.outcome
    answered = outcome if isinstance(outcome, Answered) else None
    return {
        "attempt": sent.copy.attempt,
        "status": answered and answered.status,
        "said": answered and answered.verdict,
        "ack_dropped": isinstance(outcome, AckDropped),
        "failure": outcome.why if isinstance(outcome, Unanswered) else None,
        "took_ms": round(sent.took_ms, 1),
    }
