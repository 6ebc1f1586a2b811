"""How many partitions should a worker own? As many as the others, rounded up, so that none is left over."""

from __future__ import annotations

from hooklane.model.lane import PARTITIONS


def fair_share(workers: int) -> int:
    """The share of one of *workers* live workers, ourselves included."""
    return -(-PARTITIONS // max(1, workers))
