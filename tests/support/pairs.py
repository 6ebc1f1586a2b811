"""Which pairs of mode and case does `make test` run? Each case once, in one mode or the other by turns; the rest soaks.

Most promises of the receiver hold in both modes and on every store or driver. A case is a store, a driver, an input, or
several of them. As neighbours take turns, a test that has two cases sees both modes, and every pair of a mode and a
store is seen by many tests.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from zlib import crc32

MODE = "mode"
Case = tuple[tuple[str, int], ...]


def soaking(tests: Sequence[tuple[str, Mapping[str, int]]]) -> list[bool]:
    """Of each test, by its name and by which of its values each parameter has: whether `make soak` alone runs it."""
    modes: dict[str, dict[Case, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, indices in tests:
        if MODE in indices:
            modes[name][_case(indices)].add(indices[MODE])
    found = []
    for name, indices in tests:
        paired = sorted(case for case, seen in modes[name].items() if len(seen) == 2)  # in both modes
        case = _case(indices)
        is_paired = len(paired) > 1 and case in paired
        found.append(is_paired and (crc32(name.encode()) + paired.index(case) + indices[MODE]) % 2 == 1)
    return found


def _case(indices: Mapping[str, int]) -> Case:
    return tuple(sorted((name, index) for name, index in indices.items() if name != MODE))
