"""Rate limit for wrong API keys: guessing gets slow, and a request with the right key is never held up."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

BURST = 10
"""Wrong keys of one address that are answered at once: a deployment with an old key is not an attack."""
PER_S = 0.2
BURST_OF_ALL = 100
PER_S_OF_ALL = 10.0
DELAY_S = 1.0
ADDRESSES_MAX = 4_096


class Bucket:
    """Tokens that come back with time."""

    __slots__ = ("_at", "_burst", "_per_s", "_tokens")

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._tokens, self._at = float(burst), 0.0

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class WrongKeys:
    """Counts wrong keys by their source, and all together: many addresses shall not guess faster than one may."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Bucket] = OrderedDict()
        self._all = Bucket(BURST_OF_ALL, PER_S_OF_ALL)

    def delay_s(self, address: str, now: float) -> float:
        """A wrong key came from *address*: how long its answer is held back, 0 while that is no guessing."""
        source = network_of(address)
        bucket = self._of.pop(source, None) or Bucket(BURST, PER_S)
        self._of[source] = bucket  # the one that guessed last stands last
        if len(self._of) > ADDRESSES_MAX:
            self._of.popitem(last=False)
        mine, ours = bucket.take(now), self._all.take(now)
        return 0.0 if mine and ours else DELAY_S


def network_of(address: str) -> str:
    """What counts as one source: an IPv4 address, or the /64 that a customer gets of IPv6."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped  # how a socket of both families names an IPv4 client: all of them lie in one /64
    return str(ip) if ip.version == 4 else str(ipaddress.ip_network((ip, 64), strict=False))
