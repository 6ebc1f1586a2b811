"""Puts still WebP pictures together into one that moves. The pictures come as a browser encodes them (lossy VP8).

The container is RIFF: https://developers.google.com/speed/webp/docs/riff_container. A frame may be smaller than the
picture: it is drawn at its place over what was there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_ANIMATED = 0x02
_OVER_WHAT_WAS = 0x02  # do not blend with it: a frame without alpha replaces its rectangle


@dataclass(frozen=True, slots=True)
class Frame:
    """A still WebP and where it goes (both even), how large it is, and how long it stays."""

    x: int
    y: int
    width: int
    height: int
    duration_ms: int
    webp: bytes


def animated(frames: Sequence[Frame]) -> bytes:
    """The moving picture, repeated for ever, as large as the first of *frames*."""
    width, height = frames[0].width, frames[0].height
    header = struct.pack("<I", _ANIMATED) + _three(width - 1) + _three(height - 1)
    body = _chunk(b"VP8X", header) + _chunk(b"ANIM", struct.pack("<IH", 0xFFFFFFFF, 0))
    for frame in frames:
        place = _three(frame.x // 2) + _three(frame.y // 2) + _three(frame.width - 1) + _three(frame.height - 1)
        still = b"".join(_chunk(name, data) for name, data in chunks(frame.webp) if name == b"VP8 ")
        if not still:
            raise ValueError("a frame must be a lossy WebP")
        body += _chunk(b"ANMF", place + _three(frame.duration_ms) + bytes([_OVER_WHAT_WAS]) + still)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def chunks(webp: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The parts of a WebP file, by name."""
    if webp[:4] != b"RIFF" or webp[8:12] != b"WEBP":
        raise ValueError("not a WebP file")
    at = 12
    while at + 8 <= len(webp):
        name, size = struct.unpack_from("<4sI", webp, at)
        yield name, webp[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _three(number: int) -> bytes:
    return struct.pack("<I", number)[:3]
