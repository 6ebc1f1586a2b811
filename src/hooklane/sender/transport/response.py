"""What does a response head say? Checked beyond what the parser checks, and read only where we need it."""

from __future__ import annotations

import re

from hooklane.sender.transport.limits import HINT_CHARS_MAX

PREFIX = b"HTTP/1."

# llhttp lets a NUL stand in the reason, leading line ends, RTSP/1.0 and the status 099.
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n")


def has_status_line(data: bytes) -> bool:
    """Whether *data* begins with a well-formed status line of HTTP/1."""
    return _STATUS_LINE.match(data) is not None


def could_be_http(data: bytes | bytearray) -> bool:
    """Whether *data*, perhaps a single byte so far, can still become a response."""
    return data[: len(PREFIX)] == PREFIX[: len(data)]


def hint(head: bytes, lowered: bytes, name: bytes) -> str | None:
    """The first value of the header *name* in a head that the parser accepted; printable ASCII, cut to a bound.

    *lowered* is the head in lower case and *name* is `\\r\\n<name>:`; a parsed head has no folded lines, so that a
    search is enough.
    """
    at = lowered.find(name)
    if at < 0:
        return None
    at += len(name)
    value = head[at : head.index(b"\r\n", at)].strip(b" \t")
    # Control bytes and what looks like them in latin-1 must not reach a terminal or a log line.
    return value[:HINT_CHARS_MAX].decode("ascii", "backslashreplace")


def keep_alive_s(head: bytes, lowered: bytes) -> float | None:
    """How long the peer says that it keeps an idle connection (`Keep-Alive: timeout=5`)."""
    text = hint(head, lowered, b"\r\nkeep-alive:")
    found = re.search(r"timeout=([0-9]{1,6})", text) if text else None
    return float(found[1]) if found else None
