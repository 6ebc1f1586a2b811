"""Which pairs of mode and case does `make test` run? Each case once, in one mode or the other by turns; the rest soaks.

Most promises of the receiver hold in both modes and on every store or driver. A case is a store, a driver, an input, or
several of them. As neighbours take turns, a test that has two cases sees both modes, and every pair of a mode and a
store is seen by many tests.
"""

from collections.abc import Mapping
from zlib import crc32

MODE = "mode"
BESIDE = {"way"}
"""Parameters that come together with another one, and are no case of their own."""


def soaks(test: str, indices: Mapping[str, int]) -> bool:
    """Whether this pair is left to `make soak`. *indices*: of each parameter of *test*, which of its values it has."""
    cases = [index for name, index in indices.items() if name != MODE and name not in BESIDE]
    if MODE not in indices or not cases:
        return False
    return (crc32(test.encode()) + sum(cases) + indices[MODE]) % 2 == 1
