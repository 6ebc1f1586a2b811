"""A compiled dataclass is made by a constructor that was written out: it must be the one that it had."""

import inspect
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from tools.constructors import with_constructors

SOURCE = '''
from __future__ import annotations
from dataclasses import dataclass, field
from typing import ClassVar

NONE = ()


@dataclass(slots=True)
class Plain:
    """A noun."""

    id: str
    many: int | None = None
    """How many."""
    shown: bytes = field(default=b"", repr=False)

    @property
    def is_many(self) -> bool:
        return bool(self.many)


@dataclass(frozen=True, kw_only=True)
class Frozen:
    at: int = -1
    parts: tuple[str, ...] = NONE


@dataclass
class Listed:
    parts: list[str] = field(default_factory=list)


@dataclass
class Counted:
    many: int
    kinds: ClassVar[int] = 3


@dataclass
class Checked:
    many: int

    def __post_init__(self) -> None:
        self.many += 1


@dataclass
class Child(Plain):
    more: int = 0


class Other:
    id: str
'''


def classes(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, "example.py", "exec", dont_inherit=True), names)
    return names


def test_a_written_constructor_takes_what_the_one_of_the_dataclass_takes():
    before, after = classes(SOURCE), classes(with_constructors(SOURCE))

    for name in ("Plain", "Frozen", "Listed", "Counted", "Checked", "Child"):
        assert inspect.signature(after[name]).parameters == inspect.signature(before[name]).parameters, name


def test_plain_ones_are_written_out_and_others_are_left_alone():
    written = with_constructors(SOURCE)

    assert written.count("def __init__") == 2
    assert "copied_whole(Plain, Frozen, Listed, Counted, Checked, Child)" in written


def test_no_line_of_the_source_moves():
    written = with_constructors(SOURCE).splitlines()

    assert [line for line in SOURCE.splitlines() if line] == [
        line for line, was in zip(written, SOURCE.splitlines(), strict=False) if was
    ]


def test_a_value_is_the_same_by_either():
    before, after = classes(SOURCE)["Plain"], classes(with_constructors(SOURCE))["Plain"]

    assert repr(after("a", shown=b"x")) == repr(before("a", shown=b"x"))
    assert after("a", 3).is_many


def test_interpreted_a_frozen_one_would_refuse_its_own_fields():
    """So the tree that is compiled is never run uncompiled (see tools.compiled)."""
    with pytest.raises(FrozenInstanceError):
        classes(with_constructors(SOURCE))["Frozen"](at=1)


def test_a_line_that_follows_at_once_stays():
    written = with_constructors("@dataclass\nclass Plain:\n    x: int\nNEXT = 1\n").splitlines()

    assert "NEXT = 1" in written
    assert written[3].startswith("    def __init__(self, x: int)")


def test_a_class_that_wants_no_constructor_gets_none():
    assert "__init__" not in with_constructors("@dataclass(init=False)\nclass Bare:\n    x: int\n")
