"""What does a response head say? Checked beyond what the parser checks, and read only where we need it."""

from __future__ import annotations

import re
from typing import NamedTuple

from hooklane.sender.transport.limits import HEAD_BYTES_KEPT, HINT_CHARS_MAX, IDLE_S_MAX

PREFIX = b"HTTP/1."

# llhttp lets a NUL stand in the reason, leading line ends, RTSP/1.0 and the status 099.
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n")
_TIMEOUT = re.compile(r"timeout=([0-9]{1,6})")


def has_status_line(data: bytes) -> bool:
    """Whether *data* begins with a well-formed status line of HTTP/1."""
    return _STATUS_LINE.match(data) is not None


def could_be_http(data: bytes | bytearray) -> bool:
    """Whether *data*, perhaps a single byte so far, can still become a response."""
    line_end = data.find(b"\n")
    return data[: len(PREFIX)] == PREFIX[: len(data)] and (line_end < 0 or data[line_end - 1] == 0x0D)


class ParsedHead(NamedTuple):
    """What an accepted head says to us."""

    status: int
    head: bytes
    """Cut to what is kept."""
    retry_after: str | None
    expected_seq: str | None
    outcome: str | None
    idle_s: float
    """How long the connection may be idle: our bound, or less where the peer says so (`Keep-Alive: timeout=5`)."""


def read_head(status: int, head: bytes) -> ParsedHead:
    """The meaning of *head*, which the parser has accepted with *status*."""
    lowered = head.lower()
    kept = _value(head, lowered, b"\r\nkeep-alive:")
    promised = _TIMEOUT.search(kept) if kept else None
    return ParsedHead(
        status,
        head[:HEAD_BYTES_KEPT],
        _value(head, lowered, b"\r\nretry-after:"),
        _value(head, lowered, b"\r\nwebhook-expected-seq:"),
        _value(head, lowered, b"\r\nhooklane-outcome:"),
        # A second less: a request that meets the peer's goodbye half way is a delivery of unknown outcome.
        min(IDLE_S_MAX, max(0.0, float(promised[1]) - 1.0)) if promised else IDLE_S_MAX,
    )


def _value(head: bytes, lowered: bytes, name: bytes) -> str | None:
    """The first value of a header as printable ASCII, bounded. No line of a parsed head is folded, so find will do."""
    at = lowered.find(name)
    if at < 0:
        return None
    at += len(name)
    value = head[at : head.index(b"\r\n", at)].strip(b" \t")
    # Control bytes and what looks like them in latin-1 must not reach a terminal or a log line.
    return value[:HINT_CHARS_MAX].decode("ascii", "backslashreplace")
