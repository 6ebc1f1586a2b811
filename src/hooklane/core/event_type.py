"""Is a schema one that may be checked at each publish? Bounded in size, depth and work, nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

SCHEMA_BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
WEIGHT_MAX = 2_000
"""Keywords and listed values, with every `$ref` written out where it stands."""
PATTERN_CHARS_MAX = 256
DRAFT = "https://json-schema.org/draft/2020-12/schema"

_LITERAL = ("const", "default", "enum", "examples")
"""What stands below these is data, not a schema."""
_DEFINITIONS = ("$defs", "definitions")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies", *_DEFINITIONS)
"""What stands below these is schemas, each with a name that its author chose: no name there is a keyword."""
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_ANEW = 3
"""So many times is all that stands beside one of these looked at: one inside the other multiplies."""
_REFUSED = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor", "$vocabulary")

_INDEX = re.compile("[0-9]{1,6}")


class InvalidSchema(ValueError):
    """This schema is refused; the text says which rule it breaks, and where."""


def weight_of(schema: Any) -> int:
    """How much there is to check at most, at one place of the data; InvalidSchema where that has no good bound."""
    if not isinstance(schema, dict | bool):
        raise InvalidSchema("a schema is an object (or true or false)")
    if isinstance(schema, dict) and schema.get("$schema", DRAFT) != DRAFT:
        raise InvalidSchema(f"$schema must be {DRAFT}, or left out")
    weight = _Weighing(schema).weigh(schema, "#", 0)
    if weight > WEIGHT_MAX:
        raise InvalidSchema(f"the schema is too large: at most {WEIGHT_MAX:,} keywords with every $ref written out")
    return weight


class _Weighing:
    """One walk over a schema. What a `$ref` leads to is weighed once and counted at each place that names it."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, int] = {}
        self._open: set[str] = set()

    def weigh(self, node: Any, at: str, depth: int) -> int:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"{at}: nested deeper than {DEPTH_MAX}")
        if isinstance(node, list):
            # One for each: `false`, `{}` and the name of a required property are work as well.
            return sum(1 + self.weigh(one, f"{at}/{n}", depth + 1) for n, one in enumerate(node))
        if not isinstance(node, dict):
            return 0
        weight = sum(self._keyword(name, value, f"{at}/{name}", depth) for name, value in node.items())
        for name in _UNEVALUATED:
            weight *= _ANEW if name in node else 1
        return weight

    def _keyword(self, name: str, value: Any, at: str, depth: int) -> int:
        if name in _LITERAL:
            return 1 + (len(value) if isinstance(value, list) else 1)
        if name in _REFUSED or (name == "$id" and depth > 0 and isinstance(value, str)):
            raise InvalidSchema(f"{at}: {name} is not supported; use $ref to #/$defs/…")
        if name == "pattern" and isinstance(value, str) and len(value) > PATTERN_CHARS_MAX:
            raise InvalidSchema(f"{at}: a pattern has at most {PATTERN_CHARS_MAX} characters")
        if name == "patternProperties" and isinstance(value, dict) and any(len(k) > PATTERN_CHARS_MAX for k in value):
            raise InvalidSchema(f"{at}: a pattern has at most {PATTERN_CHARS_MAX} characters")
        if name == "$ref" and isinstance(value, str):
            return 1 + self._target(value, at, depth)
        weight = self._below(name, value, at, depth + 1)
        return 1 if name in _DEFINITIONS else 1 + weight  # a definition is looked at, and counted where it is used

    def _below(self, name: str, value: Any, at: str, depth: int) -> int:
        if name in _SCHEMAS_BY_NAME and isinstance(value, dict):
            return sum(1 + self.weigh(one, f"{at}/{member}", depth + 1) for member, one in value.items())
        return self.weigh(value, at, depth)

    def _target(self, ref: str, at: str, depth: int) -> int:
        if not (ref == "#" or ref.startswith("#/")):
            raise InvalidSchema(f"{at}: $ref must lead to a place in this schema, such as #/$defs/address")
        # As the validator reads it: `%61` stands for `a`, so another place than the one that it spells is weighed.
        ref = unquote(ref)
        if ref in self._known:
            return self._known[ref]
        if ref in self._open or ref == "#":
            raise InvalidSchema(f"{at}: {ref} leads back to itself; a schema that contains itself is not supported")
        self._open.add(ref)
        weight = self._known[ref] = self.weigh(_found(self._root, ref, at), ref, depth + 1)
        self._open.discard(ref)
        if weight > WEIGHT_MAX:
            raise InvalidSchema(f"{at}: the schema is too large with every $ref written out")
        return weight


def _found(root: Any, ref: str, at: str) -> Any:
    node = root
    for part in ref[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and _INDEX.fullmatch(name) and int(name) < len(node):
            node = node[int(name)]
        else:
            raise InvalidSchema(f"{at}: there is nothing at {ref}")
    return node
