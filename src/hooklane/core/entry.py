"""May this event enter? The rules of the wire for type, key, id and data, the same for every door."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from hooklane.errors import InvalidEvent
from hooklane.model.size import size_beside, size_text

DATA_BYTES_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 64
KEYS_MAX: Final = 10_000
NUMBER_CHARS_MAX: Final = 64
KEY_BYTES_MAX: Final = 255
TYPE_CHARS_MAX: Final = 128

_TYPE: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{TYPE_CHARS_MAX}}}\Z")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_NUMBER: Final = re.compile(rb"[-+.0-9eE]{%d}" % (NUMBER_CHARS_MAX + 1))
_decode: Final = msgspec.json.Decoder().decode


@lru_cache(maxsize=1_024)  # they are few, and come again and again
def _is_type(type_: str) -> bool:
    return _TYPE.match(type_) is not None


def admit_type(type_: str) -> None:
    # Their length first: what is kept must be short, however long the texts are that are sent.
    if len(type_) > TYPE_CHARS_MAX or not _is_type(type_):
        raise InvalidEvent("invalid_type", f"type must be 1-128 of A-Z a-z 0-9 _ . -, got {type_[:140]!r}")


def admit_id(event_id: str) -> None:
    if not _ID.match(event_id):
        raise InvalidEvent("invalid_id", f"id must be 1-128 of A-Z a-z 0-9 _ -, got {event_id[:140]!r}")


def admit_key(key: str) -> None:
    """A key may be any text of 1-255 bytes, but a control character in it would poison logs and headers."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidEvent("invalid_key", "key is not valid UTF-8 (it holds a lone surrogate)") from None
    if not 1 <= size <= KEY_BYTES_MAX:
        raise InvalidEvent("invalid_key", f"key must be 1-{KEY_BYTES_MAX} bytes of UTF-8, got {size}")
    if not key.isprintable() and _CONTROL.search(key):
        raise InvalidEvent("invalid_key", "key must not hold control characters")


def admit_data(data: bytes) -> None:
    """The data must be strict JSON within the limits, since it is stored and delivered byte for byte."""
    admit_json(data, "data", bytes_max=DATA_BYTES_MAX, depth_max=DEPTH_MAX, keys_max=KEYS_MAX)


def admit_json(text: bytes, what: str, *, bytes_max: int, depth_max: int, keys_max: int) -> Any:
    """Strict JSON within limits, parsed: no key twice in an object, no NaN, no broken text. *what* names it."""
    if len(text) > bytes_max:
        raise InvalidEvent(
            "too_large", f"{what} must be at most {size_text(bytes_max)}, got {size_beside(len(text), bytes_max)}"
        )
    try:
        tree = _decode(text)
    except RecursionError:
        raise InvalidEvent("too_deep", f"{what} is nested deeper than {depth_max} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidEvent("invalid_json", f"{what} is not JSON: {error}") from None
    # Outside of strings a colon stands for one member of an object, so the text's own count can be
    # compared with the parsed tree: fewer in the tree means that a key was there twice.
    colons = text.count(b":")
    if (
        colons <= keys_max
        and (len(text) <= NUMBER_CHARS_MAX or not _LONG_NUMBER.search(text))
        and (len(text) <= depth_max or _depth_at_most(text) <= depth_max)
        and (not colons or colons == _count_members(tree))
    ):
        return tree  # it would be so even if its strings were no strings: nearly always
    skeleton = _STRINGS.sub(b"", text)
    if len(skeleton) > NUMBER_CHARS_MAX and _LONG_NUMBER.search(skeleton):
        raise InvalidEvent("number_too_long", f"a number in {what} has more than {NUMBER_CHARS_MAX} characters")
    members = skeleton.count(b":")
    if members > keys_max:
        raise InvalidEvent("too_many_keys", f"{what} has {members:,} object keys, at most {keys_max:,} are allowed")
    if len(skeleton) > depth_max and _depth_at_most(skeleton) > depth_max and _depth(skeleton) > depth_max:
        raise InvalidEvent("too_deep", f"{what} is nested deeper than {depth_max} levels")
    # (With members in its text the tree is an object or a list.)
    if members and members != _count_members(tree):
        raise InvalidEvent("duplicate_key", f"an object in {what} has the same key twice")
    return tree


def _depth_at_most(skeleton: bytes) -> int:
    return skeleton.count(b"[") + skeleton.count(b"{")


def _depth(skeleton: bytes) -> int:
    deepest = depth = 0
    for byte in skeleton:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _count_members(tree: Any) -> int:
    count = 0
    pending = [tree]
    for node in pending:  # it grows while it is walked
        if type(node) is dict:
            count += len(node)
            values: Any = node.values()
        else:
            values = node
        pending.extend([value for value in values if type(value) is dict or type(value) is list])
    return count
