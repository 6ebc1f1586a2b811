"""Sizes are told in units that people use."""

import pytest

from hooklane.model.size import size_beside, size_text


@pytest.mark.parametrize(
    ("many", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1_023, "1023 bytes"),
        (1_024, "1 KiB"),
        (278_528, "272 KiB"),
        (300_000, "293 KiB"),
        (1_572_864, "1.5 MiB"),
        (8 * 2**20, "8 MiB"),
        (3 * 2**40, "3 TiB"),
        (5_000 * 2**40, "5000 TiB"),
    ],
)
def test_a_size_is_told_in_the_largest_unit_that_fits(many: int, text: str) -> None:
    assert size_text(many) == text


@pytest.mark.parametrize(
    ("many", "most", "text"),
    [(262_145, 262_144, "262145 bytes"), (300_000, 262_144, "293 KiB"), (8 * 2**20 + 1, 8 * 2**20, "8388609 bytes")],
)
def test_a_size_beyond_a_limit_never_reads_like_the_limit(many: int, most: int, text: str) -> None:
    assert size_beside(many, most) == text
