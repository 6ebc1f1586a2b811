"""Which secrets may have signed? A keyring is built once per source and tells at once what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hooklane.core.verify.keys import Key, read_keys
from hooklane.core.verify.profile import Grade, Profile, grade_of
from hooklane.core.verify.scheme import KeyKind, Scheme, Signed, SignedItems
from hooklane.core.verify.shared_secret import Algorithm, BadSecret
from hooklane.errors import ConfigError

Certificates = Callable[[str], bytes | None]
"""Gives the PEM chain behind a URL, from a cache or a file. It is asked only for hosts that the profile pins."""


@dataclass(frozen=True, slots=True)
class Held:
    """One key, and which of the configured secrets it came from."""

    secret: int
    text: str = field(repr=False)
    kind: KeyKind
    algorithm: Algorithm
    key: Key = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """The live secrets of one source; *problems* names those that were left out, and why."""

    held: tuple[Held, ...]
    grade: Grade
    problems: tuple[str, ...] = ()
    url: str | None = None
    tolerance_ms: int | None = None
    """Replaces the profile's window where it has one."""
    verify_token: str | None = field(default=None, repr=False)
    certificates: Certificates | None = field(default=None, repr=False)
    roots: bytes | None = field(default=None, repr=False)
    """PEM of the authorities that a provider's certificate must lead to."""
    learn: bool = False
    """Accept a first secret that the provider sends in-band (Asana, Notion)."""
    _of: dict[int, tuple[Scheme, list[Held]]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was answered about a scheme, by its identity: comparing schemes would take longer than asking anew."""

    def of(self, scheme: Scheme) -> list[Held]:
        """The keys that *scheme* can use."""
        found = self._of.get(id(scheme))
        if found is None:
            kind, algorithm = scheme.key, _algorithm(scheme)
            held = [held for held in self.held if held.kind is kind and held.algorithm is algorithm]
            # The scheme is kept beside them, so that no other can come to have its identity.
            found = self._of[id(scheme)] = (scheme, held)
        return found[1]

    def secret_text(self, index: int) -> str:
        """The configured text of secret *index*."""
        return next(held.text for held in self.held if held.secret == index)


def keyring(
    profile: Profile,
    secrets: Sequence[str],
    *,
    url: str | None = None,
    tolerance_ms: int | None = None,
    verify_token: str | None = None,
    certificates: Certificates | None = None,
    roots: bytes | None = None,
    learn: bool = False,
) -> Keyring:
    """The keys in *secrets*, newest first. One that is garbled is left out and named in `problems`;
    an empty one, or none that can be used, is a `ConfigError`."""
    if isinstance(secrets, str):
        secrets = [secrets]
    kinds = list(dict.fromkeys((scheme.key, _algorithm(scheme)) for scheme in profile.schemes))
    held: list[Held] = []
    problems: list[str] = []
    for index, secret in enumerate(secrets):
        label = f"{profile.name}: secret {index + 1} of {len(secrets)}"
        if secret is not None and not isinstance(secret, str):
            raise ConfigError([f"{label} must be text, got {type(secret).__name__}"])
        if not secret or not secret.strip():
            raise ConfigError([f"{label} is empty"])
        try:
            held.extend(_read(index, secret, kinds))
        except BadSecret as problem:
            problems.append(f"{label} cannot be used: {problem}")
    if not held and not learn:
        raise ConfigError(problems or [f"{profile.name}: a secret is needed, none was given"])
    if url is not None and not url.lower().startswith(("http://", "https://")):
        raise ConfigError([f"{profile.name}: url must be the public http(s) URL given to the provider, got {url!r}"])
    given: object = tolerance_ms
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
        raise ConfigError(
            [f"{profile.name}: tolerance_ms is a whole number of milliseconds, at least 0, got {given!r}"]
        )
    used = {each.kind for each in held}
    grades = [grade_of(profile, scheme) for scheme in profile.schemes if scheme.key in used] or [profile.grade]
    return Keyring(
        held=tuple(held),
        grade=max(grades, key=list(Grade).index),
        problems=tuple(problems),
        url=url,
        tolerance_ms=tolerance_ms,
        verify_token=verify_token,
        certificates=certificates,
        roots=roots,
        learn=learn,
    )


def _algorithm(scheme: Scheme) -> Algorithm:
    return scheme.algorithm if isinstance(scheme, (Signed, SignedItems)) else Algorithm.HMAC_SHA256


def _read(index: int, secret: str, kinds: list[tuple[KeyKind, Algorithm]]) -> list[Held]:
    """The first kind that fits claims the secret, so that a signing secret never serves as a weaker token."""
    problem = BadSecret("no kind of secret is known")
    for number, (kind, algorithm) in enumerate(kinds):
        try:
            return [Held(index, secret, kind, algorithm, key) for key in read_keys(secret, kind, algorithm)]
        except BadSecret as found:
            # Say what the kind expects that the secret seems to be, else what the first kind expects.
            if number == 0 or (kind is KeyKind.WHPK and secret.startswith(("whpk_", "whsk_", "{"))):
                problem = found
            if kind is KeyKind.WHSEC_ONLY and secret.startswith("whsec_"):
                break  # a garbled signing secret must not be taken for a token
    raise problem
