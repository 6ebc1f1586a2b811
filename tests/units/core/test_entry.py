"""What may enter: strict JSON within limits, keys and types that harm nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core import entry
from hooklane.core.entry import (
    DATA_BYTES_MAX,
    DEPTH_MAX,
    KEYS_MAX,
    NUMBER_CHARS_MAX,
    admit_data,
    admit_id,
    admit_json,
    admit_key,
    admit_type,
)
from hooklane.errors import InvalidEvent

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
trees = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5)
)


def code_of(admit: Callable[[Any], None], value: Any) -> str:
    with pytest.raises(InvalidEvent) as refused:
        admit(value)
    return refused.value.code


def admitted(text: bytes) -> Any:
    """What was read of *text*, within the bounds of an event's data."""
    return admit_json(text, "data", bytes_max=DATA_BYTES_MAX, depth_max=DEPTH_MAX, keys_max=KEYS_MAX)


@given(trees, st.booleans(), st.sampled_from([None, 1]))
def test_every_json_document_enters(tree: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(tree, ensure_ascii=ascii_only, indent=indent).encode()

    assert json.dumps(admitted(text)) == json.dumps(tree)


@given(texts, trees)
def test_an_object_with_the_same_key_twice_does_not_enter_however_deep_or_disguised(key: str, tree: Any) -> None:
    name = json.dumps(key)
    disguised = '"' + "".join(f"\\u{ord(char):04x}" for char in key if ord(char) < 0x10000) + '"'
    double = f"{{{name}: 1, {name}: 2}}"

    assert code_of(admit_data, double.encode()) == "duplicate_key"
    assert code_of(admit_data, f'[{json.dumps(tree)}, {{"x": {double}}}]'.encode()) == "duplicate_key"
    if all(ord(char) < 0x10000 for char in key):
        assert code_of(admit_data, f"{{{name}: 1, {disguised}: 2}}".encode()) == "duplicate_key"


@pytest.mark.parametrize(
    "text",
    ["", "{", "{}x", "NaN", "[NaN]", "Infinity", "-Infinity", "{'a': 1}", "[1,]", '{"a":1,}', "01", "+1", ".5", "nul"],
)
def test_what_is_not_strict_json_does_not_enter(text: str) -> None:
    assert code_of(admit_data, text.encode()) == "invalid_json"


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xc3"', b'["\xed\xa0\x80"]'])
def test_broken_text_does_not_enter(data: bytes) -> None:
    assert code_of(admit_data, data) == "invalid_json"


def test_limits_are_kept_to_the_last_one() -> None:
    admit_data(b'"' + b"a" * (DATA_BYTES_MAX - 2) + b'"')
    assert code_of(admit_data, b'"' + b"a" * (DATA_BYTES_MAX - 1) + b'"') == "too_large"
    admit_data(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    assert code_of(admit_data, b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1)) == "too_deep"
    assert code_of(admit_data, b"[" * 100_000 + b"]" * 100_000) == "too_deep"
    admit_data(json.dumps({str(n): n for n in range(KEYS_MAX)}).encode())
    assert code_of(admit_data, json.dumps({str(n): n for n in range(KEYS_MAX + 1)}).encode()) == "too_many_keys"
    admit_data(b"[0." + b"1" * (NUMBER_CHARS_MAX - 2) + b"]")
    assert code_of(admit_data, b"[0." + b"1" * (NUMBER_CHARS_MAX - 1) + b"]") == "number_too_long"


def test_what_stands_in_strings_is_not_counted() -> None:
    document = {"a": ":" * 20_000, "b": "[" * 200, "c": "9" * 200, 'd"\\': '"}:'}

    assert admitted(json.dumps(document).encode()) == document


@given(st.text(min_size=1, max_size=300))
def test_a_key_is_any_text_of_1_to_255_bytes_without_control_characters(key: str) -> None:
    try:
        fits = 1 <= len(key.encode()) <= 255
    except UnicodeEncodeError:
        fits = False
    harmless = not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in key)

    if fits and harmless:
        admit_key(key)
    else:
        assert code_of(admit_key, key) == "invalid_key"


def test_an_empty_key_and_half_a_character_are_refused() -> None:
    assert code_of(admit_key, "") == "invalid_key"
    assert code_of(admit_key, "a\ud800") == "invalid_key"


@given(st.text(max_size=140))
def test_types_and_ids_are_plain(text: str) -> None:
    plain = text.isascii() and 1 <= len(text) <= 128
    is_id = plain and all(char.isalnum() or char in "_-" for char in text)
    is_type = plain and all(char.isalnum() or char in "_.-" for char in text)

    for admit, is_good, code in ((admit_id, is_id, "invalid_id"), (admit_type, is_type, "invalid_type")):
        if is_good:
            admit(text)
        else:
            assert code_of(admit, text) == code


def test_types_that_are_far_too_long_are_refused_and_not_remembered():
    def kept() -> int:
        return entry._is_type.cache_info().currsize

    before = kept()
    for number in range(50):
        with pytest.raises(InvalidEvent, match="type must be"):
            admit_type(f"{number}" * 10_000)

    assert kept() == before
    admit_type("a" * 128)
    with pytest.raises(InvalidEvent, match="type must be"):
        admit_type("a" * 129)
