"""What a field or a parameter may hold, in the words of JSON Schema, for the description of the API.

Only told, never enforced by these words: the handlers refuse what is wrong, with a code that says what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Words = Mapping[str, Any]

TEXT: Words = {"type": "string"}
TIME: Words = {"type": "string", "format": "date-time"}
SWITCH: Words = {"type": "string", "enum": ["true", "false"]}
STATUS: Words = {"type": "string", "pattern": "^[1-5]([0-9]{2}|xx)$"}
EVENT_ID: Words = {"minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_-]{1,128}$"}
TYPE: Words = {"minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_.-]{1,128}$"}
KEY: Words = {"minLength": 1, "maxLength": 255, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$"}
TENANT: Words = {"minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"}
IDEMPOTENCY_KEY: Words = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"}


def told(words: Words) -> msgspec.Meta:
    """The annotation of a field: `Annotated[str, told(TYPE)]`."""
    return msgspec.Meta(extra_json_schema=dict(words))


def one_of(words: Iterable[str]) -> Words:
    return {"type": "string", "enum": [str(word) for word in words]}


def some_of(words: Iterable[str]) -> Words:
    """Some of them, with commas."""
    any_ = "|".join(re.escape(str(word)) for word in words)
    return {"type": "string", "pattern": f"^({any_})(,({any_}))*$"}


def whole(least: int, most: int) -> Words:
    return {"type": "integer", "minimum": least, "maximum": most}


def text_of(chars_max: int, *, least: int = 0) -> Words:
    return {"minLength": least, "maxLength": chars_max}
