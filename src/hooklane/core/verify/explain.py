"""Why does a signature not match? Each usual mistake is tried, and the one that makes it match is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from hooklane.core.profiles import find_profile, profile_names
from hooklane.core.verify.check import check, claimed_at
from hooklane.core.verify.clues import clues
from hooklane.core.verify.guesses import Guess, guessed_bodies, guessed_secrets, guessed_urls
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.open_request import open_request
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.ring import Keyring, keyring
from hooklane.core.verify.scheme import BodyText, Header, HeaderText, NumberedHeaders, Scheme, Signed, Token
from hooklane.errors import ConfigError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

_ANY_AGE_MS = 2**62


class Mark(StrEnum):
    """What a line tells."""

    GOOD = "✓"
    BAD = "✕"
    HINT = "→"


@dataclass(frozen=True, slots=True)
class Line:
    mark: Mark
    text: str

    def __str__(self) -> str:
        return f"{self.mark} {self.text}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was found, line by line; *reason* is None when the request is accepted."""

    accepted: bool
    reason: str | None
    lines: tuple[Line, ...]

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do about it."""
        return tuple(line.text for line in self.lines if line.mark is Mark.HINT)


def explain(
    request: Request, profile: Profile, secrets: Sequence[str], now: Instant, *, url: str | None = None, **options: Any
) -> Explanation:
    """Whether *profile* accepts *request* with *secrets* at *now*, and if not, what is wrong. Nothing is sent anywhere,
    and no secret, body or expected signature is in the lines."""
    try:
        keys = keyring(profile, secrets, url=url, **options)
    except ConfigError as problem:
        lines = [Line(Mark.BAD, text) for text in problem.problems]
        hints = _secret_hints(request, profile, secrets, url)
        return Explanation(False, "misconfigured", (*lines, *(Line(Mark.HINT, hint) for hint in hints)))
    notes = [Line(Mark.BAD, text) for text in keys.problems]
    try:
        opened = open_request(request, profile, keys, now, source=profile.name)
    except VerificationError as failure:
        lines = [*notes, *_what_failed(failure, request, profile, keys, secrets, now)]
        return Explanation(False, failure.reason, tuple(lines))
    if isinstance(opened, Handshake):
        return Explanation(True, None, (*notes, Line(Mark.GOOD, f"a handshake of {profile.title}, which is answered")))
    assert opened.proof is not None
    return Explanation(True, None, (*notes, *_what_fits(opened.proof, len(secrets), now)))


def _what_fits(proof: Proof, secrets: int, now: Instant) -> Iterable[Line]:
    yield Line(Mark.GOOD, "headers present")
    if proof.stamp is not None:
        yield Line(Mark.GOOD, f"timestamp {_age(now - proof.stamp)}")
    if secrets == 1:
        yield Line(Mark.GOOD, "signature: fits the secret")
    else:
        yield Line(Mark.GOOD, f"signature: fits secret {proof.secret + 1} of {secrets}")
    if proof.secret > 0:
        yield Line(
            Mark.HINT,
            "the sender still signs with a previous secret: keep it in the list until its rotation is over.",
        )


def _what_failed(
    failure: VerificationError,
    request: Request,
    profile: Profile,
    keys: Keyring,
    secrets: Sequence[str],
    now: Instant,
) -> Iterable[Line]:
    match failure.reason:
        case "missing_header":
            yield Line(Mark.BAD, str(failure))
            yield from (Line(Mark.HINT, hint) for hint in _header_hints(request, profile, keys))
        case "stale":
            proof = _fits(request, profile, replace(keys, tolerance_ms=_ANY_AGE_MS), now)
            at = proof.stamp if proof is not None else None
            yield Line(Mark.GOOD, "headers present")
            yield Line(Mark.BAD, f"timestamp {_age(now - at)}" if at is not None else str(failure))
            if at is not None:
                yield Line(Mark.GOOD, "signature: fits, so only the time is wrong")
                yield from (Line(Mark.HINT, hint) for hint in _clock_hints(now - at))
        case "mismatch":
            yield Line(Mark.GOOD, "headers present")
            yield from _claimed_age(request, profile, now)
            number = len({held.secret for held in keys.held})
            yield Line(Mark.BAD, f"signature: no match with {number} secret{'s' if number > 1 else ''}")
            hints = _mismatch_hints(request, profile, keys, secrets, now)
            yield from (Line(Mark.HINT, hint) for hint in hints)
        case _:
            yield Line(Mark.BAD, str(failure))
            yield from (Line(Mark.HINT, hint) for hint in _other_profiles(request, profile, secrets, now))


def _claimed_age(request: Request, profile: Profile, now: Instant) -> Iterable[Line]:
    """How old the request says that it is: a signature that does not fit may be due to a time that was changed."""
    for scheme in profile.schemes:
        if isinstance(scheme, Signed) and (at := claimed_at(scheme, request)) is not None:
            yield Line(Mark.GOOD, f"timestamp {_age(now - at)}")
            return


def _mismatch_hints(
    request: Request, profile: Profile, keys: Keyring, secrets: Sequence[str], now: Instant
) -> list[str]:
    anytime = replace(keys, tolerance_ms=_ANY_AGE_MS)
    guesses: list[tuple[Guess, Request, Keyring]] = [
        *((guess, guess.apply(request), anytime) for guess in guessed_bodies(request)),
        *((guess, guess.apply(request), replace(anytime, url=guess.url)) for guess in guessed_urls(request, keys.url)
          if profile.needs_url),
        *((guess, request, replace(anytime, held=guess.held)) for guess in guessed_secrets(profile, secrets)),
    ]  # fmt: skip
    for guess, tried, ring in guesses:
        if _fits(tried, profile, ring, now) is not None:
            return [guess.sentence]
    others = _other_profiles(request, profile, secrets, now)
    return (
        others
        or list(clues(request, secrets))
        or [
            "none of the usual mistakes explains it: the secret belongs to another endpoint or environment, "
            "or the body was changed on the way."
        ]
    )


def _secret_hints(request: Request, profile: Profile, secrets: Sequence[str], url: str | None) -> list[str]:
    """The secret cannot be read as this profile's kind; does the request fit it as another kind?"""
    keys = Keyring(held=(), grade=profile.grade, url=url, tolerance_ms=_ANY_AGE_MS)
    for guess in guessed_secrets(profile, [secret for secret in secrets if isinstance(secret, str)]):
        if _fits(request, profile, replace(keys, held=guess.held), Instant(0)) is not None:
            return [guess.sentence]
    return _other_profiles(request, profile, secrets, Instant(0)) or [
        f"look for the signing secret in the webhook settings of {profile.title}; an API key is not one."
    ]


def _other_profiles(request: Request, profile: Profile, secrets: Sequence[str], now: Instant) -> list[str]:
    for other in _known():
        if other.schemes == profile.schemes:
            continue
        try:
            keys = replace(keyring(other, secrets), tolerance_ms=_ANY_AGE_MS)
        except ConfigError:
            continue
        if _fits(request, other, keys, now) is not None:
            return [f"it verifies as {other.title}: use the profile {other.name}."]
    return []


def _known() -> list[Profile]:
    """All profiles; the standard itself before providers that follow it."""
    names = sorted(profile_names(), key=lambda name: (name != "standard_webhooks", name))
    return [find_profile(name) for name in names]


def _fits(request: Request, profile: Profile, keys: Keyring, now: Instant) -> Proof | None:
    try:
        return check(request, profile, keys, now)
    except VerificationError:
        return None


def _header_hints(request: Request, profile: Profile, keys: Keyring) -> Iterable[str]:
    present = {name.lower() for name, _ in request.headers}
    schemes = [scheme for scheme in profile.schemes if keys.of(scheme)]
    wanted = list(dict.fromkeys(name for scheme in schemes for name in headers_of(scheme)))
    for name in wanted:
        for other in (name.replace("-", "_"), "http_" + name.replace("-", "_")):
            if name not in present and other in present:
                yield (
                    f"there is {other}: headers are written with dashes here. "
                    "Hand over the request's own headers, not the server's environment."
                )
                return
    for candidate in _known():
        first = headers_of(candidate.schemes[0])
        if first and first[0] not in wanted and all(each in present for each in first):
            yield f"these are the headers of {candidate.title}: use the profile {candidate.name}."
            return
    missing = [name for name in headers_of(schemes[0]) if name not in present] if schemes else []
    if missing:
        yield (
            f"{profile.title} sends {', '.join(missing)}: has the webhook a secret there, "
            "and does a proxy in between pass the header on?"
        )


def headers_of(scheme: Scheme) -> list[str]:
    """The headers that take part in the proof, the signature's first."""
    match scheme:
        case Token():
            return [scheme.header]
        case Signed():
            names: list[str] = []
            match scheme.source:
                case Header(name):
                    names.append(name)
                case NumberedHeaders(prefix, _):
                    names.append(f"{prefix}1")
                case BodyText():
                    pass
            if scheme.stamp is not None and isinstance(scheme.stamp.where, Header):
                names.append(scheme.stamp.where.name)
            return names + [part.header for part in scheme.message if isinstance(part, HeaderText)]
        case _:
            return []


def _clock_hints(age_ms: int) -> Iterable[str]:
    if age_ms < 0:
        yield f"the clock here is behind the sender's by {_span(-age_ms)}: is time synchronisation running?"
    else:
        yield (
            f"the request is {_span(age_ms)} old: it is a replay or waited in a queue, "
            "or the clock here is ahead of the sender's. Retries carry a new timestamp."
        )


def _age(age_ms: int) -> str:
    return f"{_span(age_ms)} old" if age_ms >= 0 else f"{_span(-age_ms)} in the future"


def _span(span_ms: int) -> str:
    seconds = span_ms // 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
