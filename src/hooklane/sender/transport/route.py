"""Everything about one target that is the same for all its requests, worked out once."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, NamedTuple

from hooklane.model.exchange import Failure, Target
from hooklane.sender.addresses import Address
from hooklane.sender.egress import Destination, EgressGuard, Refusal, UrlNotAllowed
from hooklane.sender.transport.response import ParsedHead
from hooklane.sender.transport.tls import own_context

if TYPE_CHECKING:
    from hooklane.sender.transport.connection import Connection

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


class SeenResponse(NamedTuple):
    """A whole response as it was read: the same head with as many bytes behind it means the same again.

    Only for responses that came in one piece, with their length in the head (not in chunks) and nothing after them;
    what the parser made of such a head depends on nothing else.
    """

    head: bytes
    size: int
    meaning: ParsedHead


class Route:
    """A target with its destination, its request head, its certificates' judge and its idle connections."""

    __slots__ = (
        "context",
        "destination",
        "head",
        "idle",
        "refusal",
        "seen",
        "target",
        "timeout_s",
        "used_at",
        "vetted",
    )

    def __init__(self, target: Target, guard: EgressGuard, user_agent: str) -> None:
        self.target = target
        self.timeout_s = target.timeout_ms / 1000
        self.idle: list[Connection] = []
        self.used_at = 0.0
        self.vetted: tuple[Address, ...] | None = None
        """The answer of the last lookup, the address that worked first; None before the first."""
        self.seen: SeenResponse | None = None
        """The last response that came whole, to know its like again."""
        self.destination: Destination | None = None
        self.context: ssl.SSLContext | None = None
        """Only for a target with its own authorities."""
        self.head = b""
        self.refusal: Refusal | None = None
        try:
            self.destination = guard.check(target.url)
            self.head = _head(self.destination, target.headers, user_agent)
            if target.ca_pem is not None:
                self.context = own_context(target.ca_pem)
        except (UrlNotAllowed, ValueError) as error:
            self.refusal = Refusal(Failure.TARGET_NOT_ALLOWED, str(error))
        except ssl.SSLError:
            self.refusal = Refusal(Failure.TLS, "the endpoint's own CA is not a certificate in PEM")


def _head(destination: Destination, headers: tuple[tuple[str, str], ...], user_agent: str) -> bytes:
    lines = [f"POST {destination.path} HTTP/1.1", f"Host: {destination.authority}", "Accept-Encoding: identity"]
    names = {name.lower() for name, _ in headers}
    if "user-agent" not in names:
        lines.append(f"User-Agent: {user_agent}")
    # The API checked these when it stored them; still, nothing that could end our head early goes on the wire.
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name.lower() in _OURS:
            raise ValueError(f"the endpoint's own header {name!r} cannot be sent")
        lines.append(f"{name}: {value}")
    lines.append("Content-Length: ")
    return "\r\n".join(lines).encode("ascii")
