"""Which headers are kept with a message? Those that prove, name or explain it; never a credential."""

from __future__ import annotations

from hooklane.core.verify.places import InHeader, Joined, Place
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.scheme import Header, HeaderText, NumberedHeaders, Signed
from hooklane.model.message import Request

_ALWAYS = (
    *("content-type", "user-agent", "idempotency-key", "x-key", "x-seq", "x-prev-seq", "x-attempt", "x-replay-of"),
    "traceparent",
)
VALUE_CHARS_MAX = 4096


class KeptHeaders:
    """The allow-list of one source: what its profile reads, but no header that holds a secret itself."""

    def __init__(self, profile: Profile) -> None:
        self._names = {*_ALWAYS, *_named_by(profile)}
        self._prefixes = tuple(
            scheme.source.prefix.lower()
            for scheme in profile.schemes
            if isinstance(scheme, Signed) and isinstance(scheme.source, NumberedHeaders)
        )

    def of(self, request: Request) -> tuple[tuple[str, str], ...]:
        """The headers of *request* to keep, as they were sent."""
        names = self._names
        if self._prefixes:
            names = names | {low for name, _ in request.headers if (low := name.lower()).startswith(self._prefixes)}
        return tuple(
            [
                header if header[1].isascii() and len(header[1]) <= VALUE_CHARS_MAX else (header[0], _kept(header[1]))
                for header in request.headers
                if header[0].lower() in names
            ]
        )


def _kept(value: str) -> str:
    # Half a surrogate pair is in no store's alphabet, and a header must not keep an event out.
    return value[:VALUE_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")


def _named_by(profile: Profile) -> set[str]:
    names: set[str] = set()
    for scheme in profile.schemes:
        if not isinstance(scheme, Signed):
            continue  # a token in a header is the secret
        if isinstance(scheme.source, Header):
            names.add(scheme.source.name.lower())
        if scheme.stamp is not None and isinstance(scheme.stamp.where, Header):
            names.add(scheme.stamp.where.name.lower())
        names.update(part.header.lower() for part in scheme.message if isinstance(part, HeaderText))
    places = (*profile.id, *profile.type, *profile.key, *profile.delivery_id, *profile.attempt, *profile.account)
    for place in places:
        names.update(_headers_in(place))
    return names


def _headers_in(place: Place) -> set[str]:
    match place:
        case InHeader(name):
            return {name.lower()}
        case Joined(places):
            return {name for each in places for name in _headers_in(each)}
        case _:
            return set()
