"""Which pairs of mode and case does `make test` run? Each case once, in one mode or the other by turns; the rest soaks.

Most promises of the receiver hold in both modes and on every store or driver. A case is a store, a driver, an input, or
several of them. As neighbours take turns, a test that has two cases sees both modes, and every pair of a mode and a
store is seen by many tests.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

MODE = "mode"
MODES = ("durable", "inline")
Case = tuple[tuple[str, int], ...]


def soaking(tests: Sequence[tuple[str, Mapping[str, Any]]]) -> list[bool]:
    """Of each test, by its name and the values of its parameters: whether `make soak` alone runs it."""
    modes: dict[str, dict[Case, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, values in tests:
        if values.get(MODE) in MODES:
            modes[name][_case(values)].add(values[MODE])
    found = []
    for name, values in tests:
        paired = [case for case, seen in modes[name].items() if len(seen) == len(MODES)]
        case = _case(values)
        is_paired = len(paired) > 1 and case in paired
        found.append(is_paired and (crc32(name.encode()) + paired.index(case) + MODES.index(values[MODE])) % 2 == 1)
    return found


def _case(values: Mapping[str, Any]) -> Case:
    """Which values a test has beside its mode: the very objects, as some can be neither compared nor hashed."""
    return tuple((name, id(value)) for name, value in values.items() if name != MODE)
