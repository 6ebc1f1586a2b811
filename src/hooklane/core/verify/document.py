"""What does a body say? JSON and forms, read within bounds; what cannot be read safely is `Unreadable`."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

import msgspec

DEPTH_MAX = 64
NUMBER_TEXT_MAX = 64
FORM_FIELDS_MAX = 10_000

_SPACE = " \t\r\n"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SORTED = msgspec.json.Encoder(order="sorted")


class Unreadable(ValueError):
    """The bytes are not a document that we parse; the message says why, without quoting them."""


def _whole(text: str) -> int:
    if len(text) > NUMBER_TEXT_MAX:
        raise Unreadable("a number is too long")
    return int(text)


def _real(text: str) -> float:
    if len(text) > NUMBER_TEXT_MAX:
        raise Unreadable("a number is too long")
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Unreadable("a number is out of range")
    return number


def _constant(_: str) -> Any:
    raise Unreadable("NaN and Infinity are not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        # Two parsers disagree about which one counts, so neither is what was meant.
        raise Unreadable("an object has the same key twice")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_constant, parse_int=_whole, parse_float=_real)


def read_json(body: bytes) -> Any:
    """The value of *body*, or `Unreadable`: stricter than the standard library, and it never recurses away."""
    try:
        text = body.decode("utf-8").strip(_SPACE)
        document, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise Unreadable("the body is not JSON")
    except Unreadable:
        raise
    except UnicodeDecodeError:
        raise Unreadable("the body is not UTF-8") from None
    except RecursionError:
        raise Unreadable(f"the body is nested deeper than {DEPTH_MAX}") from None
    except ValueError:
        raise Unreadable("the body is not JSON") from None
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _is_deep(document):
        raise Unreadable(f"the body is nested deeper than {DEPTH_MAX}")
    if b"\\u" in body and _SURROGATE.search(body):
        try:
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise Unreadable("a string holds half a surrogate pair") from None
    return document


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        level = [
            child
            for value in level
            if isinstance(value, (dict, list))
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def read_form(body: bytes) -> list[tuple[str, str]]:
    """The fields of a form body in order, or `Unreadable`."""
    try:
        text = body.decode("ascii")
        return parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=FORM_FIELDS_MAX
        )
    except ValueError:  # UnicodeError is one
        raise Unreadable("the body is not a form") from None


def canonical(document: Any) -> bytes:
    """One spelling of *document*, whatever its key order and spacing were."""
    try:
        return _SORTED.encode(document)
    except (OverflowError, TypeError, ValueError, msgspec.MsgspecError):  # integers beyond 64 bits
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("utf-8")
