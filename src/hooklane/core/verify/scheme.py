"""How does a provider sign? A small grammar: where the signature is, how it is written, which bytes it covers.

Everything here is data. `check.py` reads a scheme to verify a request, and the test kit reads the same scheme
to sign one, so that the two can never disagree about what a profile means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.shared_secret import Algorithm

FIVE_MINUTES_MS = 300_000


class KeyKind(StrEnum):
    """How the text that a user configures becomes a key."""

    UTF8 = "utf8"  # the whole string, a prefix such as whsec_ included
    WHSEC = "whsec"  # base64 after an optional whsec_
    WHSEC_ONLY = "whsec-only"  # base64 after whsec_, which must be there
    WHPK = "whpk"  # an Ed25519 public key after whpk_, or a JWKS of them
    HEX = "hex"
    BASE64 = "base64"
    ED25519_HEX = "ed25519-hex"
    SPKI = "spki"  # a public key as base64 DER or PEM
    TOKEN = "token"  # compared, not used as a key
    CERTIFIED = "certified"  # the name of the subscription or topic; the key is in a certificate


# Where the text of a signature or a timestamp is found.
@dataclass(frozen=True, slots=True)
class Header:
    name: str


@dataclass(frozen=True, slots=True)
class NumberedHeaders:
    """`{prefix}1`, `{prefix}2` … up to *last*: one signature per key."""

    prefix: str
    last: int


@dataclass(frozen=True, slots=True)
class BodyText:
    """A string or number at a path of the JSON body."""

    path: str


@dataclass(frozen=True, slots=True)
class InSignature:
    """Beside the signatures, in the same header (`t=…,v1=…`)."""


Source = Header | NumberedHeaders | BodyText


# How one text holds one or more signatures.
@dataclass(frozen=True, slots=True)
class Plain:
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Pairs:
    """`t=1,v1=aa,v1=bb`: *names* are the signatures that count, *stamp* the timestamp; others are ignored."""

    name: str
    stamp: str | None = None
    separator: str = ","
    sets: str = ""
    """What stands between whole sets of pairs, one set per secret, all of one time (`t=1,v1=aa t=1,v1=bb`)."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """`v1,aa v1,bb v2,cc`: only entries with this tag count."""

    tag: str


@dataclass(frozen=True, slots=True)
class Positional:
    """`1700000000,aa,bb`: the timestamp, then signatures."""


Format = Plain | Pairs | Tagged | Positional


# The bytes that are signed, in order.
@dataclass(frozen=True, slots=True)
class Literal:
    raw: bytes


@dataclass(frozen=True, slots=True)
class StampText:
    """The timestamp exactly as it was received, never formatted anew."""


@dataclass(frozen=True, slots=True)
class HeaderText:
    """A signed header, known as *name* afterwards."""

    header: str
    name: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class JsonText:
    """A signed member of the body."""

    path: str


@dataclass(frozen=True, slots=True)
class Body:
    """The raw body."""


@dataclass(frozen=True, slots=True)
class BodyCrc32:
    """The CRC-32 of the body in decimal."""


@dataclass(frozen=True, slots=True)
class Method:
    pass


class UrlForm(StrEnum):
    """Which spelling of the URL is signed."""

    REGISTERED = "registered"  # as it was given to the provider
    REQUESTED = "requested"  # the registered one with the query of this request
    HUBSPOT = "hubspot"  # requested, with some escapes decoded
    PORTS = "ports"  # requested, with or without the default port


@dataclass(frozen=True, slots=True)
class Url:
    form: UrlForm


@dataclass(frozen=True, slots=True)
class SortedForm:
    """Each name of a form and its distinct values, sorted, without separators; nothing for other bodies,
    which then must match the `bodySHA256` of the query."""


@dataclass(frozen=True, slots=True)
class SecretText:
    """The configured secret itself, where it is a name and not a key."""


OnePiece = Literal | StampText | HeaderText | JsonText | Body | BodyCrc32 | Method | SortedForm | SecretText
Part = OnePiece | Url
"""Only a URL has several spellings."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of the attempt; without *tolerance_ms* it is signed but not enforced."""

    where: Header | BodyText | InSignature
    unit: Unit = Unit.SECONDS
    tolerance_ms: int | None = FIVE_MINUTES_MS


@dataclass(frozen=True, slots=True)
class Standard:
    """The headers of a scheme that signs `id.stamp.body` with one HMAC-SHA256: their names in lower case, the rest."""

    id: HeaderText
    id_header: str
    stamp: str
    signature: str
    mark: str
    tolerance_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signature over bytes: about nine in ten providers."""

    source: Source
    message: tuple[Part, ...] = (Body(),)
    format: Format = Plain()
    encoding: Encoding = Encoding.HEX
    algorithm: Algorithm = Algorithm.HMAC_SHA256
    key: KeyKind = KeyKind.UTF8
    stamp: Stamp | None = None
    covers_body: bool = field(init=False, repr=False, compare=False)
    """Whether a changed body is noticed. A CRC-32 is no digest: another body with the same one is easily made."""
    covers_stamp: bool = field(init=False, repr=False, compare=False)
    needs_url: bool = field(init=False, repr=False, compare=False)
    standard: Standard | None = field(init=False, repr=False, compare=False)
    """Set where it signs as Standard Webhooks does, whatever its headers are called: see `standard.py`."""

    def __post_init__(self) -> None:
        # Asked for each request, and always the same: told once.
        kinds = {type(part) for part in self.message}
        object.__setattr__(self, "covers_body", not kinds.isdisjoint((Body, SortedForm)))
        object.__setattr__(self, "covers_stamp", StampText in kinds)
        object.__setattr__(self, "needs_url", Url in kinds)
        object.__setattr__(self, "standard", _standard(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The secret itself in a header: the sender knows it, what is sent is not protected."""

    header: str
    prefix: str = ""
    basic: bool = False
    """The header is `Authorization: Basic` and the secret is `user:password`."""
    key: KeyKind = KeyKind.TOKEN
    covers_body: bool = False
    needs_url: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedItems:
    """Each item of a batch carries its own signature over some of its fields; every one is verified."""

    items: str
    unwrap: str
    signature: str
    fields: tuple[str, ...]
    free: str
    """The one of *fields* that may hold a colon, which joins them: with two, a text could be cut in several ways."""
    encoding: Encoding = Encoding.BASE64
    algorithm: Algorithm = Algorithm.HMAC_SHA256
    key: KeyKind = KeyKind.HEX
    covers_body: bool = False
    needs_url: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenItems:
    """Each item of a batch carries the secret itself; every one is compared."""

    items: str
    token: str
    key: KeyKind = KeyKind.TOKEN
    covers_body: bool = False
    needs_url: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSigned:
    """Amazon SNS: the members of the body are signed with a certificate that it names. Anyone can have Amazon sign
    for a topic of their own, so the configured secret is the ARN of the topic."""

    key: KeyKind = KeyKind.CERTIFIED
    covers_body: bool = True
    needs_url: bool = False


Scheme = Signed | Token | SignedItems | TokenItems | TopicSigned

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def _standard(scheme: Signed) -> Standard | None:
    match scheme:
        case Signed(
            source=Header(signature),
            message=(HeaderText() as id, Literal(b"."), StampText(), Literal(b"."), Body()),
            format=Tagged(tag),
            encoding=Encoding.BASE64,
            algorithm=Algorithm.HMAC_SHA256,
            stamp=Stamp(Header(stamp), Unit.SECONDS, int() as tolerance_ms),
        ):
            return Standard(id, id.header.lower(), stamp.lower(), signature.lower(), f"{tag},", tolerance_ms)
    return None


def standard(prefix: str = "webhook", *, key: KeyKind = KeyKind.WHSEC) -> tuple[Signed, Signed]:
    """Standard Webhooks v1 and v1a under the headers `{prefix}-id`, `-timestamp` and `-signature`."""

    def signed(tag: str, algorithm: Algorithm, kind: KeyKind) -> Signed:
        return Signed(
            source=Header(f"{prefix}-signature"),
            format=Tagged(tag),
            encoding=Encoding.BASE64,
            algorithm=algorithm,
            key=kind,
            stamp=Stamp(Header(f"{prefix}-timestamp")),
            # No dot may be in the id, or a signed text could be cut in two ways.
            message=(HeaderText(f"{prefix}-id", "id", _ID), Literal(b"."), StampText(), Literal(b"."), Body()),
        )

    return signed("v1", Algorithm.HMAC_SHA256, key), signed("v1a", Algorithm.ED25519, KeyKind.WHPK)


def stamped_pairs(
    header: str,
    name: str = "v1",
    *,
    stamp: str = "t",
    unit: Unit = Unit.SECONDS,
    tolerance_ms: int | None = FIVE_MINUTES_MS,
    encoding: Encoding = Encoding.HEX,
    sets: str = "",
) -> Signed:
    """`t=…,v1=…` in *header*, as Stripe began it: HMAC-SHA256 over `{t}.{body}`, one for each live secret."""
    return Signed(
        source=Header(header),
        format=Pairs(name, stamp, sets=sets),
        stamp=Stamp(InSignature(), unit, tolerance_ms),
        message=(StampText(), Literal(b"."), Body()),
        encoding=encoding,
    )
