"""Does the data of an event keep its schema? The work itself: pure, for this process or for one beside it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from hooklane.core.event_type import SCHEMA_BYTES_MAX, InvalidSchema, weight_of

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

ERRORS_MAX = 20
_REGEX_BYTES_MAX = 1024 * 1024
Violation = tuple[str, str]
"""Where in the data (a JSON pointer), and what is wrong there."""


def weight_of_schema(text: bytes) -> int:
    """How much work a schema is at most; InvalidSchema where it is not one that we take."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidSchema(f"a schema has at most {SCHEMA_BYTES_MAX // 1024} KiB")
    schema = msgspec.json.decode(text)
    weight = weight_of(schema)
    try:
        _compiled(schema)
    except ValueError as error:  # a ValidationError is one
        raise InvalidSchema(str(error).splitlines()[0][:300]) from None
    return weight


def keeps(schema: bytes, data: bytes) -> bool:
    """Does *data* keep *schema*? Far less work than to tell what is wrong."""
    return _validator(schema).is_valid(msgspec.json.decode(data))


def violations(schema: bytes, data: bytes) -> list[Violation]:
    """What is wrong with *data*, at most the first twenty; none when it keeps *schema*."""
    validator, value = _validator(schema), msgspec.json.decode(data)
    if validator.is_valid(value):
        return []
    found: list[Violation] = []
    for error in validator.iter_errors(value):
        found.append((_pointer(error.instance_path), error.message[:300]))
        if len(found) == ERRORS_MAX:
            break
    return found


@lru_cache(maxsize=1_000)
def _validator(schema: bytes) -> Draft202012Validator:
    return _compiled(msgspec.json.decode(schema))


def _compiled(schema: Any) -> Draft202012Validator:
    """Nothing is fetched; patterns take time that grows with the text alone; messages hold nothing of the data."""
    # Loaded for the first schema: a server whose types have none is 6 MB smaller without.
    from jsonschema_rs import Draft202012Validator, RegexOptions

    patterns = RegexOptions(size_limit=_REGEX_BYTES_MAX, dfa_size_limit=_REGEX_BYTES_MAX)
    return Draft202012Validator(schema, pattern_options=patterns, offline=True, mask="the value", validate_formats=True)


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
