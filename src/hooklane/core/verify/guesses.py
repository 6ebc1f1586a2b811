"""What may have gone wrong on the way? Bodies, URLs and secrets as they would be after each usual mistake."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hooklane.core.verify.clues import joined, unzipped
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.core.verify.keys import Key, read_keys
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.reading import Encoding, read_base64, read_bytes
from hooklane.core.verify.ring import Held
from hooklane.core.verify.scheme import Signed
from hooklane.core.verify.shared_secret import BadSecret, HmacKey
from hooklane.core.verify.urls import query_of
from hooklane.model.message import Request

_RAW_BYTES = (
    "Something parsed and rewrote the JSON before verification. Read the raw bytes (FastAPI: await request.body(), "
    "Flask: request.get_data(), Django: request.body)."
)


@dataclass(frozen=True, slots=True)
class Guess:
    """If this is what happened, *sentence* says so."""

    sentence: str
    body: bytes | None = None
    url: str | None = None
    held: tuple[Held, ...] = ()

    def apply(self, request: Request) -> Request:
        """*request* as it would have been without the mistake."""
        return replace(
            request,
            body=request.body if self.body is None else self.body,
            url=request.url if self.url is None else self.url,
        )


def guessed_bodies(request: Request) -> Iterable[Guess]:
    """The body before a framework or proxy rewrote it."""
    body = request.body
    for sentence, other in _bytes_mended(body):
        if other != body:
            yield Guess(sentence, body=other)
    try:
        document = read_json(body)
    except Unreadable:
        return
    seen = {body}
    for how, text in _spellings(document):
        for end in (b"", b"\n"):
            if (other := text + end) not in seen:
                seen.add(other)
                yield Guess(f"it matches if the body is re-serialised {how}. {_RAW_BYTES}", body=other)


def _bytes_mended(body: bytes) -> Iterable[tuple[str, bytes]]:
    ends = "it matches without the line end at the end of the body: an editor or a tool added one."
    yield ends, body.removesuffix(b"\n").removesuffix(b"\r")
    yield "it matches with a line end at the end of the body: something stripped it.", body + b"\n"
    yield "it matches with CRLF at the end of the body: something stripped it.", body + b"\r\n"
    lines = "it matches with {} line ends: something converted them; hand on the bytes as they came."
    yield lines.format("CRLF"), body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    yield lines.format("LF"), body.replace(b"\r\n", b"\n")
    if (text := unzipped(body)) is not None:
        yield "it matches once the body is decompressed: hand on what the sender signed, before its gzip.", text
    if (text := joined(body)) is not None:
        yield "it matches without the lengths of a chunked transfer: they are no part of the body.", text
    yield "it matches without the byte order mark: something added it.", body.removeprefix(b"\xef\xbb\xbf")
    yield "it matches with a byte order mark: something removed it.", b"\xef\xbb\xbf" + body
    for encoding in ("latin-1", "utf-16-le"):
        for sentence, read, write in (
            (f"it matches in {encoding}: something decoded and re-encoded the text.", "utf-8", encoding),
            (f"it matches read as {encoding}: something re-encoded the text.", encoding, "utf-8"),
        ):
            try:
                recoded = body.decode(read).encode(write)
            except UnicodeError:
                continue  # it is not text in that encoding, so that did not happen
            yield sentence, recoded


def _spellings(document: Any) -> Iterable[tuple[str, bytes]]:
    compact, spaced = (",", ":"), (", ", ": ")
    for ascii_only in (False, True):
        escaped = " with non-ASCII escaped" if ascii_only else ""
        for sort in (False, True):
            order = " and keys sorted" if sort else ""
            common: dict[str, Any] = {"ensure_ascii": ascii_only, "sort_keys": sort}
            tight = json.dumps(document, separators=compact, **common).encode("utf-8", "replace")
            yield f"without spaces{order}{escaped}", tight
            yield f"without spaces{order}{escaped} and with slashes escaped (PHP)", tight.replace(b"/", b"\\/")
            yield (
                f"with spaces{order}{escaped}",
                json.dumps(document, separators=spaced, **common).encode("utf-8", "replace"),
            )
            for indent in (2, 4):
                pretty = json.dumps(document, indent=indent, **common).encode("utf-8", "replace")
                yield f"with an indent of {indent}{order}{escaped}", pretty


def guessed_urls(request: Request, registered: str | None) -> Iterable[Guess]:
    """The URL that the provider may have been given."""
    url = registered or request.url
    scheme, mark, rest = url.partition("://")
    if not mark:
        return
    behind = "something in between ends TLS, so the application sees http. Give the source its public url."
    tries: list[tuple[str, str]] = []
    if scheme.lower() == "http":
        tries.append((f"it matches with https instead of http in the URL: {behind}", f"https://{rest}"))
    else:
        tries.append(("it matches with http instead of https in the URL: register the https one.", f"http://{rest}"))
    path, _, query = url.partition("?")
    slashed = path.rstrip("/") if path.endswith("/") else path + "/"
    said = "without the slash" if path.endswith("/") else "with a slash"
    tries.append((f"it matches {said} at the end of the URL's path.", slashed + (f"?{query}" if query else "")))
    if query:
        tries.append(("it matches without the query of the URL.", path))
    elif query_of(request.url):
        tries.append(("it matches with the query of the request.", f"{path}?{query_of(request.url)}"))
    for forwarded in request.values("x-forwarded-host")[:1]:
        tail = rest.partition("/")[2]
        sentence = "it matches with the host of X-Forwarded-Host: give the source its public url."
        tries += [(sentence, f"{each}://{forwarded}/{tail}") for each in ("https", "http")]
    for sentence, other in tries:
        yield Guess(sentence, url=other)


def guessed_secrets(profile: Profile, secrets: Sequence[str]) -> Iterable[Guess]:
    """Each secret read as another kind than the profile's."""
    for scheme in profile.schemes:
        if not isinstance(scheme, Signed) or not scheme.algorithm.startswith("hmac"):
            continue
        for index, secret in enumerate(secrets):
            if (trimmed := secret.strip().strip("\"'")) != secret:
                try:
                    keys = read_keys(trimmed, scheme.key, scheme.algorithm)
                except BadSecret:
                    keys = []
                sentence = "it matches without the spaces, quotes or line end round the secret."
                yield Guess(sentence, held=tuple(_as_held(index, secret, scheme, key) for key in keys))
            for sentence, raw in _keys_mended(secret):
                held = _held(index, secret, scheme, raw)
                if held is not None:
                    yield Guess(sentence, held=(held,))


def _keys_mended(secret: str) -> Iterable[tuple[str, bytes]]:
    bare = secret.strip().removeprefix("whsec_")
    yield (
        "it matches with the secret as plain text: the sender uses the whole string, prefix included, as Stripe does. "
        "This profile decodes it as base64, so it is the wrong kind of secret or the wrong profile.",
        secret.strip().encode("utf-8", "replace"),
    )
    yield (
        "it matches with the secret as plain text without whsec_: the sender does not decode it.",
        bare.encode("utf-8", "replace"),
    )
    yield (
        "it matches with the secret decoded from base64: the sender signs as Standard Webhooks and Svix do. "
        "It is the wrong kind of secret or the wrong profile.",
        read_base64(bare + "=" * (-len(bare) % 4)) or b"",
    )
    yield "it matches with the secret decoded from hex.", read_bytes(bare, Encoding.HEX) or b""


def _held(index: int, secret: str, scheme: Signed, raw: bytes) -> Held | None:
    return _as_held(index, secret, scheme, HmacKey(raw, scheme.algorithm)) if raw else None


def _as_held(index: int, secret: str, scheme: Signed, key: Key) -> Held:
    return Held(index, secret, scheme.key, scheme.algorithm, key)
