"""Which answers are compressed, and how? Text above a kilobyte, with gzip, where the client takes it.

Never an answer that tells a secret: its length would tell something of it to a stranger who can make a browser send
requests and see how long the answers are (BREACH). Routes say so themselves (`tells_secret`).
"""

from __future__ import annotations

import asyncio
import gzip
from functools import lru_cache

from hooklane.server.call import Response

BYTES_MIN = 1_024
LEVEL = 5
LONG_BYTES = 256 * 1024
"""Longer answers are compressed beside the event loop."""
ENCODED = ("content-encoding", "gzip")
VARY = ("vary", "accept-encoding")
_TEXTS = ("application/json", "application/problem+json", "text/", "image/svg+xml", "application/x-ndjson")


def takes_gzip(accepted: str) -> bool:
    """Whether a client with this `Accept-Encoding` reads gzip; one that says `gzip;q=0` does not."""
    for part in accepted.lower().split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def is_worth_it(body: bytes, media: str) -> bool:
    return len(body) > BYTES_MIN and media.startswith(_TEXTS)


async def compressed(response: Response, accepted: str) -> Response:
    """*response* as the client reads it, smaller where that is possible."""
    if response.stream is not None or response.is_secret or not is_worth_it(response.body, response.media):
        return response
    headers = [*response.headers, VARY]
    if not takes_gzip(accepted):
        return Response(response.status, response.body, response.media, headers)
    body = response.body
    long = len(body) > LONG_BYTES
    small = await asyncio.to_thread(gzip.compress, body, LEVEL) if long else gzip.compress(body, LEVEL, mtime=0)
    return Response(response.status, small, response.media, [*headers, ENCODED])


@lru_cache(maxsize=256)
def zipped(content: bytes) -> bytes:
    """A file of the page, compressed once."""
    return gzip.compress(content, 9, mtime=0)


def file_as(content: bytes, media: str, accepted: str) -> tuple[bytes, dict[str, str]]:
    """A file as the client reads it, and the headers that say so."""
    if not is_worth_it(content, media):
        return content, {}
    if not takes_gzip(accepted):
        return content, dict([VARY])
    return zipped(content), dict([VARY, ENCODED])
