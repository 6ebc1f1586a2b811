"""Which copies does a faulty network make of one delivery, and what does the receiver say to each?

`hooklane send --times --reorder --drop-ack`: correctly signed, straight to a receiver, with no server in between.
"""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCopy:
    """What came of a copy, as `--json` prints it."""

    attempt: int
    status: int | None = None
    said: str | None = None
    """A word of `hooklane-outcome`; None from a receiver that is not one of ours."""
    ack_dropped: bool = False
    """It was answered, and the answer thrown away unread."""
    failure: str | None = None
    took_ms: float = 0.0

    @property
    def is_fine(self) -> bool:
        return self.ack_dropped or (self.status is not None and 200 <= self.status < 300)


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
        self._was_reached = False
        self._prev_seq = None if seq is None else seq - 1
        self._body = body_of(event, Payload.ENVELOPE, key=event.key, seq=seq, prev_seq=self._prev_seq)

    def post_all(self, wanted: Sequence[Copy], rate: float | None) -> Iterator[SentCopy]:
        """What came of each, as it is known; at most *rate* a second leave."""
        began = time.monotonic()
        for place, copy in enumerate(wanted):
            if rate is not None:
                time.sleep(max(0.0, began + place / rate - time.monotonic()))
            left = time.monotonic()
            sent = self._post(copy)
            if not self._was_reached:
                raise CallFailed(f"cannot reach {shown(self.url)}: {sent.failure}", Exit.UNREACHABLE)
            yield replace(sent, took_ms=round((time.monotonic() - left) * 1000, 1))

    def _post(self, copy: Copy) -> SentCopy:
        connection = connection_to(self._address, self._timeout_s)
        target = (self._address.path or "/") + (f"?{self._address.query}" if self._address.query else "")
        try:
            connection.connect()
            self._was_reached = True
            connection.request("POST", target, self._body, self._headers(copy))
            if not copy.drops_ack:
                response = connection.getresponse()
                return SentCopy(attempt=copy.attempt, status=response.status, said=_verdict(response))
            # One byte is waited for, so that the receiver has done its work; the rest is left in the socket.
            if connection.sock.recv(1):
                return SentCopy(attempt=copy.attempt, ack_dropped=True)
            return SentCopy(attempt=copy.attempt, failure="the connection was closed")
        except (OSError, http.client.HTTPException) as error:
            return SentCopy(attempt=copy.attempt, failure=why_unreachable(error))
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
    value = {"event": event.id, "key": event.key, "seq": seq, "copies": [asdict(one) for one in done]}
    show(value, lambda: [summary(done)])
    undone = [one for one in done if not one.is_fine]
    if undone:
        exit_ = Exit.FAILED if len(undone) == len(done) else Exit.PARTLY
        raise CallFailed(f"{_copies(len(undone), len(done))} not accepted by the receiver", exit_)


def _copies(many: int, of: int) -> str:
    return "the copy was" if of == 1 else f"{many} of {of} copies {'was' if many == 1 else 'were'}"


def summary(done: Sequence[SentCopy]) -> str:
    """Such as `1 applied, 2 duplicates suppressed`."""
    counts = Counter(map(_word, done))
    return ", ".join(f"{many} {_PLURALS.get(word, (word, word))[many > 1]}" for word, many in counts.items())


_PLURALS = {
    "duplicate": ("duplicate suppressed", "duplicates suppressed"),
    "ack dropped": ("ack dropped", "acks dropped"),
}
_REASONS = {"duplicate": "  (suppressed by the receiver)", "ack dropped": "  (answered, and the answer thrown away)"}


def _word(sent: SentCopy) -> str:
    if sent.ack_dropped:
        return "ack dropped"
    if sent.failure is not None:
        return "without an answer"
    return plain(sent.said) if sent.said else f"answered {sent.status}"


def _line(sent: SentCopy) -> str:
    told = f"{sign('ok' if sent.is_fine else 'failed')} {sent.status} {plain(sent.said) if sent.said else 'no verdict'}"
    if sent.ack_dropped:
        told = f"{sign('unknown')} ack dropped"
    elif sent.failure is not None:
        told = f"{sign('failed')} no answer: {plain(sent.failure)}"
    return f"try {sent.attempt}  {told:<16} {sent.took_ms:>5.0f} ms{_REASONS.get(_word(sent), '')}"
