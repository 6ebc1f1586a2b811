"""How is a provider described that we do not ship? With the same grammar, from a few words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hooklane.core.verify.places import InBody, InEnvelope, InHeader, Joined, Place, Proven
from hooklane.core.verify.profile import Budget, Dedup, Ordering, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import (
    FIVE_MINUTES_MS,
    Body,
    Format,
    Header,
    HeaderText,
    InSignature,
    KeyKind,
    Literal,
    Method,
    Pairs,
    Part,
    Plain,
    Scheme,
    Signed,
    Stamp,
    StampText,
    Token,
    Url,
    UrlForm,
)
from hooklane.core.verify.shared_secret import Algorithm
from hooklane.errors import UsageError
from hooklane.model.whole import is_whole

Somewhere = str | Place | Sequence["str | Place"] | None
"""A JSON path, `header:X-Name`, a place, a function of the parsed event, or several of them in order."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_VALUE = re.compile(r"[\x21-\x7e]{1,255}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_MEMBER = re.compile(r"[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,64}")
_PREFIX = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")


def signature_scheme(
    header: str,
    *,
    message: str = "{body}",
    prefix: str = "",
    pairs: str | None = None,
    encoding: str = "hex",
    algorithm: str = "hmac-sha256",
    key: str = "utf8",
    timestamp: str | None = None,
    unit: str = "s",
    tolerance_ms: int | None = FIVE_MINUTES_MS,
) -> Signed:
    """A signature in *header* over *message*, which may hold `{body}`, `{timestamp}`, `{method}`, `{url}` and
    `{header:X-Name}`.

    *timestamp* is the header that has it or, with *pairs* (the name of the signatures in `t=…,v1=…`), the name
    of the member beside them.
    """
    _check_texts(
        {"header": header, "message": message, "prefix": prefix, "pairs": pairs or "", "timestamp": timestamp or ""}
    )
    try:
        known = (Encoding(encoding), Algorithm(algorithm), KeyKind(key), Unit(unit))
    except ValueError as problem:
        raise UsageError(f"the scheme of {header} is not valid: {problem}") from None
    parts = _parts(message)
    if timestamp is None and StampText() in parts:
        raise UsageError(f"the message of {header} holds {{timestamp}}, but no timestamp is named")
    problems = _key_problems(known[1], known[2]) + _text_problems(header, parts, prefix, pairs, timestamp, tolerance_ms)
    if problems:
        raise UsageError(f"the scheme of {header} can never match: {'; '.join(problems)}")
    form: Format = Pairs(pairs, stamp=timestamp) if pairs else Plain(prefix)
    where = InSignature() if pairs else Header(timestamp or "")
    return Signed(
        source=Header(header),
        message=parts,
        format=form,
        encoding=known[0],
        algorithm=known[1],
        key=known[2],
        stamp=Stamp(where, known[3], tolerance_ms) if timestamp else None,
    )


_SHARED = (KeyKind.UTF8, KeyKind.WHSEC, KeyKind.WHSEC_ONLY, KeyKind.HEX, KeyKind.BASE64)
_KEYS = {
    Algorithm.HMAC_SHA1: _SHARED,
    Algorithm.HMAC_SHA256: _SHARED,
    Algorithm.HMAC_SHA512: _SHARED,
    Algorithm.ED25519: (KeyKind.WHPK, KeyKind.ED25519_HEX),
    Algorithm.ECDSA_P256: (KeyKind.SPKI,),
}
"""Which kinds of key an algorithm can use."""


def _key_problems(algorithm: Algorithm, key: KeyKind) -> list[str]:
    kinds = _KEYS.get(algorithm)
    if kinds is None:
        return [f"{algorithm} needs a certificate, which only the profiles that we ship know how to get"]
    return [] if key in kinds else [f"with {algorithm} key must be {' or '.join(kinds)}, got {key}"]


def _text_problems(
    header: str, parts: Sequence[Part], prefix: str, pairs: str | None, timestamp: str | None, tolerance_ms: int | None
) -> list[str]:
    headers = [header, *(part.header for part in parts if isinstance(part, HeaderText))]
    members = [] if pairs is None else [pairs] if timestamp is None else [pairs, timestamp]
    if pairs is None and timestamp is not None:
        headers.append(timestamp)
    problems = [f"no header can be called {name!r}" for name in headers if not _HEADER.fullmatch(name)]
    problems += [f"no member of pairs can be called {name!r}" for name in members if not _MEMBER.fullmatch(name)]
    if len(members) == 2 and pairs == timestamp:
        problems.append("signatures and timestamp have the same name")
    if prefix and (pairs is not None or not _PREFIX.fullmatch(prefix)):
        problems.append(f"prefix {prefix!r} " + ("is not looked at with pairs" if pairs else "cannot be in a header"))
    if timestamp is not None and tolerance_ms is not None and not is_whole(tolerance_ms):
        problems.append(f"tolerance_ms is at least 1, got {tolerance_ms}")
    return problems


def token_scheme(header: str, *, prefix: str = "") -> Token:
    """The secret itself in *header*: it proves the sender, and protects nothing that is sent."""
    _check_texts({"header": header, "prefix": prefix})
    if not _HEADER.fullmatch(header):
        raise UsageError(f"token_scheme: no header can be called {header!r}")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise UsageError(f"token_scheme: prefix {prefix!r} cannot be in a header")
    return Token(header=header, prefix=prefix)


def profile_of(
    name: str,
    *,
    scheme: Scheme | Sequence[Scheme],
    id: Somewhere = None,
    type: Somewhere = None,
    key: Somewhere = None,
    seq: Somewhere = None,
    prev_seq: Somewhere = None,
    event_time: str | Callable[[Any], Any] | When | None = None,
    delivery_id: Somewhere = None,
    attempt: Somewhere = None,
    account: Somewhere = None,
    volatile: Sequence[str] = (),
    batch: str | None = None,
    dedup: str | None = None,
    order: str = "none",
    budget: Budget | None = None,
    title: str | None = None,
) -> Profile:
    """A profile of your own. Without *id* messages are told apart by a digest of their body."""
    _check_texts({"name": name})
    if not _NAME.fullmatch(name):
        raise UsageError(f"a profile's name is a-z, 0-9 and _, got {name!r}")
    schemes = (
        (scheme,) if isinstance(scheme, (Signed, Token, str)) or not isinstance(scheme, Sequence) else tuple(scheme)
    )
    if not schemes:
        raise UsageError(f"profile {name} has no scheme")
    problems = [f"a scheme is a signature_scheme(…) or a token_scheme(…), got {one!r}" for one in _no_schemes(schemes)]
    texts: object = volatile  # what it should be is what the type checker believes
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        problems.append(f"volatile are several paths, got {texts!r}")
    others: dict[str, tuple[object, Any, str]] = {
        "batch": (batch, str, "the path to the items"),
        "budget": (budget, Budget, "a Budget(…)"),
    }
    for field, (value, kind, wanted) in others.items():
        if value is not None and not isinstance(value, kind):
            problems.append(f"{field} is {wanted}, got {value!r}")
    if problems:
        raise UsageError(f"profile {name} is not valid: {'; '.join(problems)}")

    def places(value: Somewhere) -> tuple[Place, ...]:
        return places_in(value, schemes)

    when = event_time if event_time is None or isinstance(event_time, When) else When(_place(event_time, schemes))
    try:
        return Profile(
            name=name,
            title=title or name,
            schemes=schemes,
            id=places(id),
            type=places(type),
            key=places(key),
            seq=places(seq),
            prev_seq=places(prev_seq),
            event_time=(when,) if when else (),
            delivery_id=places(delivery_id),
            attempt=places(attempt),
            account=places(account),
            volatile=tuple(volatile),
            split=() if batch is None else (Split(batch),),
            dedup=Dedup(dedup) if dedup else Dedup.EVENT_ID if id is not None else Dedup.DERIVED,
            order=Ordering(order),
            budget=budget or Budget(),
        )
    except ValueError as problem:
        raise UsageError(f"profile {name} is not valid: {problem}") from None


def _check_texts(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise UsageError(f"{name} is text, got {value!r}")


def _no_schemes(schemes: Sequence[object]) -> list[object]:
    return [one for one in schemes if not isinstance(one, Scheme)]


def places_in(value: Somewhere, schemes: Sequence[Scheme]) -> tuple[Place, ...]:
    """Where to look, in that order: paths into the body, `header:name`, functions of the parsed event, or places."""
    if value is None:
        return ()
    several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    return tuple(_place(each, schemes) for each in several)


def _place(value: str | Place, schemes: Sequence[Scheme]) -> Place:
    given: object = value
    if not isinstance(given, str):
        if not isinstance(given, InBody | InEnvelope | InHeader | Proven | Joined) and not callable(given):
            raise UsageError(f"a place is a path, header:name or a function of the parsed event, got {given!r}")
        return value  # type: ignore[return-value]
    if not given:
        raise UsageError("the path to a place is empty")
    value = given
    if not value.startswith("header:"):
        return InBody(value)
    header = value.removeprefix("header:").strip().lower()
    for scheme in schemes:
        for part in scheme.message if isinstance(scheme, Signed) else ():
            if isinstance(part, HeaderText) and part.header == header:
                return Proven(part.name)
    return InHeader(header)


def _parts(message: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for number, text in enumerate(_PLACEHOLDER.split(message)):
        if number % 2 == 0:
            if text:
                parts.append(Literal(text.encode("utf-8")))
            continue
        match text.partition(":"):
            case ("body", "", ""):
                parts.append(Body())
            case ("timestamp", "", ""):
                parts.append(StampText())
            case ("method", "", ""):
                parts.append(Method())
            case ("url", "", ""):
                parts.append(Url(UrlForm.REQUESTED))
            case ("header", ":", header) if header.strip():
                name = header.strip().lower()
                parts.append(HeaderText(name, name, _VALUE))
            case _:
                raise UsageError(
                    f"{{{text}}} is not known in a signed message: "
                    "use {body}, {timestamp}, {method}, {url} or {header:X-Name}"
                )
    return tuple(parts)
