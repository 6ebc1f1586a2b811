"""How is text from a stranger read? Strictly: one spelling of each value is right, everything else is None."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache

from hooklane.model.clock import Instant

_DECIMAL = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_SECOND = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})")
_REST = re.compile(r"(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:?[0-9]{2})?")
_HTTP_DATE = re.compile(r"[A-Za-z]{3}, [0-9]{2} [A-Za-z]{3} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


ISO_CHARS_MAX = 35
"""Of a time to the nanosecond, with its zone."""


class Encoding(StrEnum):
    """How a signature is written as text."""

    HEX = "hex"
    BASE64 = "base64"
    BASE64URL = "base64url"


class Unit(StrEnum):
    """How a provider writes a time."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    DECIMAL_SECONDS = "s.fraction"
    ISO = "iso"
    HTTP_DATE = "http-date"
    SNOWFLAKE = "snowflake"


def read_bytes(text: str, encoding: Encoding) -> bytes | None:
    """The bytes that *text* spells, or None; junk, missing padding and stray bits are never forgiven."""
    if encoding is Encoding.HEX:
        return bytes.fromhex(text) if _HEX.fullmatch(text) else None
    if encoding is Encoding.BASE64URL:
        if "+" in text or "/" in text:
            return None
        text = text.replace("-", "+").replace("_", "/")
        text += "=" * (-len(text) % 4)  # the URL-safe spelling is commonly sent without padding
    return read_base64(text)


def read_base64(text: str) -> bytes | None:
    """Canonical base64 only: decoding and encoding again must give *text* back."""
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return raw if binascii.b2a_base64(raw, newline=False).decode("ascii") == text else None


def write_bytes(raw: bytes, encoding: Encoding) -> str:
    """*raw* as text in *encoding*: the inverse of `read_bytes`."""
    if encoding is Encoding.HEX:
        return raw.hex()
    if encoding is Encoding.BASE64URL:
        return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
    return base64.b64encode(raw).decode("ascii")


def read_instant(value: object, unit: Unit) -> Instant | None:
    """The time that *value* spells in *unit*, or None. Integers are read like their digits."""
    if not isinstance(value, str):
        if isinstance(value, float) and unit is Unit.DECIMAL_SECONDS:
            return Instant(int(value * 1000)) if 0 <= value < 1e12 else None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**20:
            return None
        value = str(value)
    if unit is Unit.ISO:  # as most are written
        return _read_iso(value)
    if unit is Unit.SECONDS:
        return Instant(int(value) * 1000) if is_number(value) else None
    match unit:
        case Unit.MILLISECONDS:
            return Instant(int(value)) if is_number(value) else None
        case Unit.DECIMAL_SECONDS:
            found = _DECIMAL.fullmatch(value)
            return Instant(int(found[1]) * 1000 + _millis(found[2])) if found else None
        case Unit.HTTP_DATE:
            return _read_http_date(value)
        case Unit.SNOWFLAKE:
            # Discord's ids count milliseconds since 2015 in their upper bits.
            is_id = re.fullmatch(r"[0-9]{15,20}", value)
            return Instant((int(value) >> 22) + 1_420_070_400_000) if is_id else None


def write_instant(at: Instant, unit: Unit) -> str:
    """*at* as text in *unit*: the inverse of `read_instant`."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    match unit:
        case Unit.SECONDS:
            return str(at // 1000)
        case Unit.MILLISECONDS:
            return str(at)
        case Unit.DECIMAL_SECONDS:
            return f"{at // 1000}.{at % 1000:03d}"
        case Unit.ISO:
            return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
        case Unit.HTTP_DATE:
            days, months = "Mon Tue Wed Thu Fri Sat Sun", "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
            day, month = days.split()[moment.weekday()], months.split()[moment.month - 1]
            return f"{day}, {moment:%d} {month} {moment:%Y %H:%M:%S} GMT"
        case Unit.SNOWFLAKE:
            return str((at - 1_420_070_400_000) << 22)


def is_number(text: str) -> bool:
    """Whether *text* is written in digits only, and not too many."""
    return text.isascii() and text.isdigit() and len(text) <= 15


def _millis(fraction: str | None) -> int:
    return int((fraction or "0").ljust(3, "0")[:3])


def _read_iso(text: str) -> Instant | None:
    rest = _read_rest(text[19:]) if len(text) <= ISO_CHARS_MAX else None
    if rest is None:
        return None
    # Whole seconds from the date, the fraction from its text: nanoseconds never pass through a float.
    fraction_ms, zone = rest
    seconds = _read_second(text[:19], zone)
    return None if seconds is None else Instant(seconds * 1000 + fraction_ms)


@lru_cache(maxsize=256)  # the events of a second share it
def _read_second(text: str, zone: str) -> int | None:
    found = _SECOND.fullmatch(text)
    try:
        return int(datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").timestamp()) if found else None
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=2048)  # and of a day all but those of a thousand milliseconds
def _read_rest(text: str) -> tuple[int, str] | None:
    """The milliseconds, and the zone."""
    found = _REST.fullmatch(text)
    if not found:
        return None
    zone = found[2]
    return _millis(found[1]), "+00:00" if zone is None or zone in "Zz" else zone


def _read_http_date(text: str) -> Instant | None:
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        return Instant(int(parsedate_to_datetime(text).timestamp()) * 1000)
    except (ValueError, TypeError, OverflowError):
        return None
