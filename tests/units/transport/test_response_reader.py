"""The reader of responses takes any bytes, in any pieces, and says the same of them."""

from __future__ import annotations

import itertools

import h11
from hypothesis import given
from hypothesis import strategies as st

from hooklane.sender.transport.reader import ResponseReader

PIECES = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.0 500 No\r\n", b"HTTP/1.1 204 \r\n", b"HTTP/1."),
    *(b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
    *(
        b"X: y\r\n",
        b" folded\r\n",
        b"Retry-After: 7\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"ok",
        b"2\r\nok\r\n",
        b"0\r\n\r\n",
        b"\x00",
    ),
]
streams = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=14).map(b"".join)
responses = st.builds(
    lambda interim, status, fields, body: (
        b"HTTP/1.1 100 Continue\r\n\r\n" * interim
        + b"HTTP/1.1 %d Fine\r\n" % status
        + b"".join(fields)
        + b"Content-Length: %d\r\n\r\n" % len(body)
        + body
    ),
    st.integers(0, 3),
    st.sampled_from([200, 202, 301, 404, 409, 429, 503]),
    st.lists(st.sampled_from([b"X: y\r\n", b"Retry-After: 7\r\n", b"Date: today\r\n"]), max_size=4),
    st.binary(max_size=30),
)


def read(pieces: list[bytes]) -> ResponseReader:
    reader = ResponseReader()
    for piece in pieces:
        if reader.problem is None and not (reader.meaning is not None and reader.is_over):
            reader.feed(piece)
    return reader


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(mark % (len(data) + 1) for mark in at)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]


@given(streams | responses, st.lists(st.integers(0, 500), max_size=6))
def test_the_pieces_that_bytes_come_in_do_not_change_what_they_mean(data: bytes, at: list[int]) -> None:
    whole, parts = read([data]), read(cut(data, at))

    assert whole.meaning == parts.meaning
    assert (whole.problem is None) == (parts.problem is None)
    assert whole.body == parts.body


@given(responses)
def test_a_proper_response_is_read_as_another_parser_reads_it(data: bytes) -> None:
    reader = read([data])
    other = h11.Connection(h11.CLIENT)
    other.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
    other.send(h11.EndOfMessage())
    other.receive_data(data)
    event = other.next_event()
    while isinstance(event, h11.InformationalResponse):
        event = other.next_event()
    body = b""
    while isinstance(more := other.next_event(), h11.Data):
        body += bytes(more.data)

    assert isinstance(event, h11.Response)
    assert isinstance(more, h11.EndOfMessage)
    assert reader.meaning is not None
    assert (reader.meaning.status, reader.body, reader.is_clean) == (event.status_code, body, True)


@given(streams)
def test_whatever_is_read_clean_leaves_the_reader_ready_for_the_next_response(data: bytes) -> None:
    reader = read([data])
    if reader.meaning is None or not reader.is_over or not reader.is_clean:
        return
    reader.begin()
    reader.feed(b"HTTP/1.1 418 Teapot\r\nContent-Length: 1\r\n\r\nx")

    assert reader.meaning is not None
    assert (reader.meaning.status, reader.body, reader.is_clean) == (418, b"x", True)
