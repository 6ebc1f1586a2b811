"""What came of one message, and what the sender is told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hooklane.model.inbox import RowId
from hooklane.model.message import Message, Reply, Verdict
from hooklane.model.value import value

_JSON = ("content-type", "application/json")

# Of several messages in one request the header names the one that matters most to the sender.
_LOUDEST_FIRST = (
    Verdict.BUSY,
    Verdict.CONFLICT,
    Verdict.REJECTED,
    Verdict.HELD,
    Verdict.TOO_OLD,
    Verdict.STORED,
    Verdict.APPLIED,
    Verdict.STALE,
    Verdict.IGNORED,
    Verdict.DUPLICATE,
)


_PLAIN = (Verdict.APPLIED, Verdict.STORED)
"""What nearly all receipts say, and what alone needs no weighing up."""


@value(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The verdict on one message, and where it is kept."""

    message: Message
    verdict: Verdict
    id: RowId | None = None
    retry_after_s: int | None = None
    """Set when the message must be sent again: it was not applied and the sender's retries are what brings it back."""
    expected_seq: int | None = None
    """Inline, out of turn: nothing was stored, and this is the seq that is next."""


def answer(receipts: Sequence[Receipt], *, own_sender: bool) -> Reply:
    """What to answer to a request that was verified; every message in it has its receipt."""
    if not receipts:
        return ok_reply("ok", Verdict.IGNORED)
    if len(receipts) == 1 and receipts[0].verdict in _PLAIN and receipts[0].retry_after_s is None:
        return ok_reply("ok", receipts[0].verdict)
    loudest = min([receipt.verdict for receipt in receipts], key=_LOUDEST_FIRST.index)
    waits = [receipt.retry_after_s for receipt in receipts if receipt.retry_after_s is not None]
    if waits:
        return error_reply(503, "try again", loudest, ("retry-after", str(max(1, *waits))))
    expected = [receipt.expected_seq for receipt in receipts if receipt.expected_seq is not None]
    if expected:
        return error_reply(409, "out of sequence", loudest, ("webhook-expected-seq", str(min(expected))))
    if loudest is Verdict.CONFLICT and own_sender:
        return error_reply(422, "another body under the same id", loudest)
    word = "already_processed" if loudest is Verdict.DUPLICATE else "ok"
    return ok_reply(word, loudest)


@lru_cache(maxsize=64)  # the same few, again and again
def ok_reply(word: str, verdict: Verdict) -> Reply:
    return Reply(200, b'{"status": "%s"}' % word.encode(), (_JSON, ("hooklane-outcome", verdict.value)))


def error_reply(status: int, error: str, verdict: Verdict | None, *headers: tuple[str, str]) -> Reply:
    """An answer that is not 2xx; *error* says no more than the status."""
    outcome = () if verdict is None else (("hooklane-outcome", str(verdict)),)
    return Reply(status, b'{"error": "%s"}' % error.encode(), (_JSON, *outcome, *headers))
