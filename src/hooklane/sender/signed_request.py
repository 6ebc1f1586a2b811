"""What is put on the wire for one attempt: the body, the headers and the signature, with what is fixed kept ready."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from hooklane.core.signing import Signer
from hooklane.core.wire import body_of, headers_of
from hooklane.model.attempt import Send
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.exchange import Answer, Target
from hooklane.model.redelivery import Redelivery

ENDPOINTS_MAX = 50_000
"""What so many endpoints share is kept ready. Beyond that all of it is made anew: some of them are long deleted."""


class _Signing:
    """What all requests to one endpoint share."""

    __slots__ = ("endpoint", "signer", "target")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.signer = Signer(endpoint.keys)
        self.target = Target(endpoint.id, endpoint.url, endpoint.timeout_ms, endpoint.ca_pem, endpoint.headers)


class SignedRequests:
    """Builds and signs the requests of all endpoints; one that changed is signed for anew."""

    def __init__(self) -> None:
        self._of: dict[str, _Signing] = {}

    def write(self, send: Send, now: Instant) -> tuple[Target, bytes, bytes]:
        """Where the attempt goes, its header lines and its body; *now* is the wall clock that receivers check."""
        endpoint = send.endpoint
        kept = self._of.get(endpoint.id)
        if kept is None or kept.endpoint is not endpoint:
            if len(self._of) >= ENDPOINTS_MAX:
                self._of.clear()
            kept = self._of[endpoint.id] = _Signing(endpoint)
        event = send.event
        key, seq, prev_seq = _place_of(send)
        body = body_of(event, endpoint.payload, order=endpoint.order, key=key, seq=seq, prev_seq=prev_seq)
        signature = kept.signer.sign(event.id, now // 1000, body, now)
        headers = headers_of(
            event, key=key, seq=seq, prev_seq=prev_seq, attempt=send.attempt, now=now, signature=signature
        )
        return kept.target, headers, body

    def shown(self, send: Send) -> bytes:
        """The head of an attempt's request for the log: what its readers may see, without signature and own headers."""
        endpoint = send.endpoint
        key, seq, prev_seq = _place_of(send)
        lines = headers_of(
            send.event,
            key=key,
            seq=seq,
            prev_seq=prev_seq,
            attempt=send.attempt,
            now=send.at,
            signature=_HIDDEN,
        )
        own = b"".join(b"%b: %b\r\n" % (name.encode(), _HIDDEN) for name, _ in endpoint.headers)
        # Without the query: that is where people put tokens.
        return b"POST %b\r\n%b%b" % (endpoint.url.partition("?")[0].encode("ascii", "replace"), own, lines)

    def hide(self, send: Send, answer: Answer) -> None:
        """Take our secrets out of what the endpoint answered: a page that shows the request shows them too."""
        secrets = _secrets_of(send.endpoint)
        answer.head = _hidden(answer.head, secrets)
        answer.body = _hidden(answer.body, secrets)
        if answer.outcome is not None:
            answer.outcome = _hidden(answer.outcome.encode(), secrets).decode()


_HIDDEN = b"***"
_SIGNATURE = re.compile(rb"v1a?,[A-Za-z0-9+/]{43,86}={0,2}")
_SECRET_CHARS_MIN = 6
"""A shorter value is a word rather than a secret, and would be cut out of the middle of others."""


def _secrets_of(endpoint: Endpoint) -> list[bytes]:
    """What the request carried and the log must not show: own headers, the query, and passwords inside of them."""
    query = urlsplit(endpoint.url).query
    values = [value for _, value in endpoint.headers] + [query, *(value for _, value in parse_qsl(query))]
    # `Bearer x` is told by its second word alone as well.
    words = {word for value in values for word in (value, *value.split(" "), unquote(value))}
    return sorted((word.encode() for word in words if len(word) >= _SECRET_CHARS_MIN), key=len, reverse=True)


def _hidden(text: bytes, secrets: list[bytes]) -> bytes:
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return _SIGNATURE.sub(_HIDDEN, text)


def _place_of(send: Send) -> tuple[str | None, int | None, int]:
    """Key, seq and prev_seq as they stand on the wire: those of a redelivery are the same as the first time."""
    event = send.event
    if isinstance(event, Redelivery):
        return event.lane_key, event.seq, event.prev_seq
    return send.key, None if send.is_loose else send.seq, send.prev_seq
