"""What can be seen to be wrong, though nothing makes the signature match? A body that is not whole, an API key."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

from hooklane.model.message import Request

UNZIPPED_MAX = 16 * 1024 * 1024

_API_KEY = re.compile(r"(sk|rk|pk)_(live|test)_|gh[opsu]_|github_pat_|glpat-|xox[abpr]-|shp(at|ca|pa)_|SG\.|AKIA|EAA")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,7})(?:;[^\r\n]*)?\r?\n")


def clues(request: Request, secrets: Sequence[str]) -> Iterable[str]:
    """Sentences, the surest first."""
    lengths = request.values("content-length")
    if len(lengths) == 1 and re.fullmatch(r"[0-9]{1,11}", lengths[0]) and int(lengths[0]) != len(request.body):
        yield (
            f"the body has {len(request.body)} bytes and Content-Length says {lengths[0]}: it is not as it came,"
            " cut off or rewritten."
        )
    if request.body.startswith(b"\x1f\x8b"):
        yield "the body is compressed (gzip): something in between did that, or does not undo it."
    for number, secret in enumerate(secrets, start=1):
        if _API_KEY.match(secret.strip()):
            which = "the secret" if len(secrets) == 1 else f"secret {number}"
            yield f"{which} looks like an API key; the signing secret stands in the settings of the webhook."


def unzipped(body: bytes) -> bytes | None:
    """What *body* is without its gzip; None where it is none, or too much."""
    if not body.startswith(b"\x1f\x8b"):
        return None
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        whole = reader.decompress(body, UNZIPPED_MAX)
    except zlib.error:
        return None
    return whole if reader.eof else None


def joined(body: bytes) -> bytes | None:
    """What *body* is without the frames of a chunked transfer, as a capture of the wire shows them; None without."""
    parts: list[bytes] = []
    at = 0
    while found := _CHUNK.match(body, at):
        size = int(found[1], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[found.end() : found.end() + size])
        at = found.end() + size
        at += 2 if body.startswith(b"\r\n", at) else 1
    return None
