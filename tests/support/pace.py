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
FORGOTTEN_BY_HALF_S = 20.0
"""A machine that was slow is thought to be slow for a while: what a test waits for, and the deadline that it then holds
that to, are read at two moments, of which either may be a quiet one."""

_last = (-math.inf, 1.0)


def slowness() -> float:
    """How many times slower than quiet: from 1 to SLOWEST."""
    global _last
    measured_at, factor = _last
    since_s = time.monotonic() - measured_at
    if since_s > KEPT_S:
        now = slowness_of(took_s=_work(), load=os.getloadavg()[0], cores=os.cpu_count() or 1)
        factor = max(now, remembered(factor, since_s))
        _last = (time.monotonic(), factor)
    return factor


def slowness_of(*, took_s: float, load: float, cores: int) -> float:
    """The worse of two signs: our own work takes longer than it should, and more wants to run than there are cores.

    The first sees what happens now, but only in the moment of looking; the second looks back over a minute.
    """
    return min(SLOWEST, max(1.0, took_s / QUIET_S, load / cores))


def remembered(factor: float, since_s: float) -> float:
    """What is left of a *factor* that was found *since_s* seconds ago."""
    return 1 + (factor - 1) * 0.5 ** (since_s / FORGOTTEN_BY_HALF_S)


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
