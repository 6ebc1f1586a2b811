"""Reads one response after the other from a stream of bytes, under limits.

The head is cut out of the stream before the parser sees it, so its size is known before anything is parsed. What is
said of a response is final once its head is complete; whatever the body does after that can only make it unclean.
"""

from __future__ import annotations

from typing import Any

import httptools

from hooklane.sender.transport.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, INTERIM_MAX
from hooklane.sender.transport.response import ParsedHead, could_be_http, has_status_line, read_head

_END = b"\r\n\r\n"


class ResponseReader:
    """A parser of HTTP/1 responses that keeps count. After `begin` it stands at the start of a response."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._buffer = bytearray()
        self.begin()

    def begin(self) -> None:
        """The next byte belongs to the next response."""
        self.meaning: ParsedHead | None = None
        """Set when the head is complete."""
        self.problem: str | None = None
        """Why this is no response; only before the head is complete."""
        self.body = b""
        """As much as is kept."""
        self.head = b""
        self._head_bytes = 0
        self._interim = 0
        self._status = 0
        self._in_body = False
        self._body_bytes = 0
        self._complete = False
        self._keep_alive = False
        self._error: str | None = None

    def close(self) -> None:
        """Nothing more will be read."""
        self._parser = None  # it refers back to us

    @property
    def is_at_start(self) -> bool:
        """Whether not a byte of the response was read."""
        return not self._head_bytes and not self._buffer

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to read of the body: it is complete, broken, or longer than we care for."""
        return self._complete or self._error is not None or self._body_bytes > BODY_BYTES_MAX

    @property
    def is_clean(self) -> bool:
        """Whether the response was read to its end, nothing came after it, and the peer keeps the connection."""
        return self._keep_alive and self._error is None and self._body_bytes <= BODY_BYTES_MAX

    def came_whole(self, size: int) -> bool:
        """Whether *size* bytes were exactly this response, its length told by its head and not by chunks."""
        return self.is_clean and not self._interim and size == len(self.head) + self._body_bytes

    def feed(self, data: bytes) -> None:
        """Read *data*; afterwards `meaning` or `problem` says whether the head is complete."""
        if self.meaning is not None:
            self._parse(data)
            return
        if self._buffer:
            known = len(self._buffer)
            self._buffer += data
            end = self._buffer.find(_END, max(0, known - 3))
            if end < 0:
                self._judge_part()
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        else:
            end = data.find(_END)
        self._read_heads(data, end)

    def _read_heads(self, data: bytes, end: int) -> None:
        while end >= 0:
            size = end + 4
            self._head_bytes += size
            if self._head_bytes > HEAD_BYTES_MAX or data.count(b"\r\n", 0, size) - 2 > HEADERS_MAX:
                self.problem = "too many response headers"
                return
            if not has_status_line(data):
                self.problem = "not a status line of HTTP/1"
                return
            if data[9] != 0x31:  # not 1xx
                self._read_final(data, size)
                return
            self._read_interim(data[:size])
            if self.problem is not None:
                return
            data = data[size:]
            end = data.find(_END)
        self._buffer += data
        self._judge_part()

    def _judge_part(self) -> None:
        if self._head_bytes + len(self._buffer) > HEAD_BYTES_MAX:
            self.problem = "too many response headers"
        elif not could_be_http(self._buffer):
            self.problem = "not a response of HTTP/1"

    def _read_interim(self, head: bytes) -> None:
        self._parse(head)
        self._interim += 1
        if self._error is not None or not self._complete or self._status == 101:
            self.problem = self._error or "an interim response that was not asked for"
        elif self._interim > INTERIM_MAX:
            self.problem = "too many interim responses"
        self._complete = False

    def _read_final(self, data: bytes, size: int) -> None:
        self.head = data[:size]
        self._parse(data)
        if self._in_body:
            self.meaning = read_head(self._status, self.head)
        else:
            self.problem = self._error or "incomplete response headers"

    # What the parser calls.

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._error = f"not HTTP/1: {error}"

    def on_message_begin(self) -> None:
        if self._complete:  # ends the parsing: what follows is not the answer to anything
            raise ValueError("bytes after the end of the response")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._in_body = self._status >= 200

    def on_body(self, chunk: bytes) -> None:
        room = BODY_BYTES_MAX - self._body_bytes
        self._body_bytes += len(chunk)
        if room > 0:
            self.body += chunk[:room]

    def on_message_complete(self) -> None:
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()
