"""How slow this machine is now, so that deadlines of tests grow with it: a slow machine is slow, and not red.

A deadline that a test sets is written as it would be on two quiet cores, and read through `scaled_s` or `scaled_ms`.
Lower bounds ("not before 300 ms") need no scale: nothing comes early because a machine is busy.
"""

import math
import os
import time

SLOWEST = 12.0
"""A machine that is slower than this is not waited for."""
QUIET_S = 0.012
"""What `_work` takes on two quiet cores of 2024, generously."""
KEPT_S = 0.5
"""Measuring is work as well, so a figure is used for this long."""

_last = (-math.inf, 1.0)


def slowness() -> float:
    """How many times slower than quiet: from 1 to SLOWEST."""
    global _last
    measured_at, factor = _last
    if time.monotonic() - measured_at > KEPT_S:
        factor = slowness_of(took_s=_work(), load=os.getloadavg()[0], cores=os.cpu_count() or 1)
        _last = (time.monotonic(), factor)
    return factor


def slowness_of(*, took_s: float, load: float, cores: int) -> float:
    """The worse of two signs: our own work takes longer than it should, and more wants to run than there are cores.

    The first sees what happens now, but only in the moment of looking; the second looks back over a minute.
    """
    return min(SLOWEST, max(1.0, took_s / QUIET_S, load / cores))


def scaled_s(quiet_s: float) -> float:
    """*quiet_s* on a quiet machine, and as much longer as this one is slower now."""
    return quiet_s * slowness()


def scaled_ms(quiet_ms: int) -> int:
    return math.ceil(quiet_ms * slowness())


def _work() -> float:
    """How long a fixed piece of work took."""
    began = time.perf_counter()
    number = 0
    while number < 100_000:
        number += 1
    return time.perf_counter() - began
