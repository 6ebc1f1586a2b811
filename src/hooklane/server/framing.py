"""Where does a request end? In HTTP/1.1 where its framing says, whatever else its head asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Parser:
    """httptools' parser, for which `Upgrade` is a header like any other (RFC 9110, section 7.8).

    httptools calls a request that asks for an upgrade complete with its head, and takes what follows for a request of
    its own: a body would be read as requests. Such a head is therefore read a second time, without `Upgrade`, and the
    protocol does nothing at the first time (`is_aside`).
    """

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._renew()

    def _renew(self) -> None:
        parser = HttpRequestParser(self._protocol)
        # Data behind the last request of a connection is passed over; without this it would be an error.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parser = parser
        self.get_method = parser.get_method
        self.get_http_version = parser.get_http_version
        self.should_keep_alive = parser.should_keep_alive
        self.is_aside = parser.should_upgrade

    def should_upgrade(self) -> bool:
        """For uvicorn, which need not know."""
        return False

    def feed_data(self, data: bytes) -> None:
        """Parse *data*; `HttpParserError` where it is no HTTP."""
        while data:
            try:
                self._parser.feed_data(data)
                return
            except HttpParserUpgrade as aside:
                if self.get_method() == b"CONNECT":
                    return  # a tunnel has no plain form; the protocol has refused it
                head = self._head()
                self._renew()
                self._parser.feed_data(head)
                data = data[aside.args[0] :]

    def _head(self) -> bytes:
        line = b"%b %b HTTP/%b" % (self.get_method(), self._protocol.url, self.get_http_version().encode())
        return _lines(line, [field for field in self._protocol.headers if field[0] != b"upgrade"])


def is_coded(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the body was sent in a coding besides chunked, which is not undone here (RFC 9112, section 6.1)."""
    return any(name == b"transfer-encoding" and value.strip().lower() != b"chunked" for name, value in headers)


def asks_first(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the client waits for leave to send its body. Other expectations are not ours to meet."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


class CloseBeforeContinue:
    """Ends the connection behind an answer that was given before the client was told to send its body.

    Whether that body still comes cannot be known: the client's next request could be taken for it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not asks_first(scope["headers"]):
            await self._app(scope, receive, send)
            return
        was_told = False

        async def tell() -> Message:
            nonlocal was_told
            was_told = True
            return await receive()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and not was_told:
                others = [field for field in message.get("headers", ()) if field[0].lower() != b"connection"]
                message["headers"] = [*others, (b"connection", b"close")]
            await send(message)

        await self._app(scope, tell, answer)


def _lines(first: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"\r\n".join([first, *(b"%b: %b" % header for header in headers), b"\r\n"])
