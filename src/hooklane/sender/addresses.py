"""Is this address one that a delivery may go to? An own table, because `ipaddress.is_global` says yes too often.

IPv4: everything but the IANA special-purpose registry, multicast, and the one public address that is a cloud's
metadata service. IPv6: only inside 2000::/3, minus what is special there. Everything else is reached only through
the operator's own list, and some things not even so.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from hooklane.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*cidrs: str) -> tuple[Network, ...]:
    return tuple(ip_network(cidr) for cidr in cidrs)


_SPECIAL_4 = _networks(
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",  # public on paper, the host agent of Azure in fact
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
_GLOBAL_6 = IPv6Network("2000::/3")
_SPECIAL_6 = _networks("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
_NAT64 = IPv6Network("64:ff9b::/96")

# Link-local and the metadata services of the clouds: what lives there hands out credentials.
_METADATA = _networks(
    "100.100.100.200/32",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "192.0.0.192/32",
    "fd00:ec2::/32",
    "fd20:ce::/32",
    "fe80::/10",
)

# No list opens these. The first row are no hosts at all (0.0.0.0 is the loopback in disguise). The others carry an IPv4
# address inside, so a list that opens IPv6 would open 169.254.169.254 or 127.0.0.1 with it, unseen.
_CLOSED = _networks(
    *("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8"),
    *("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
)
_COMPATIBLE_6 = IPv6Network("::/96")
_LOOPBACK_6 = IPv6Address("::1")


def is_public(address: Address, *, dns64: bool = False) -> bool:
    """Whether *address* is an ordinary host of the internet; with *dns64* a NAT64 address is its embedded IPv4."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    if address.scope_id is not None:
        return False
    if dns64 and address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def is_metadata(address: Address) -> bool:
    """Whether *address* is link-local or a metadata service: behind a second flag, whatever the list says."""
    return any(address in network for network in _METADATA)


class AllowList:
    """The operator's own networks: what they cover may be sent to, in plain http too."""

    def __init__(self, cidrs: Iterable[str], *, metadata: bool = False) -> None:
        self._networks = _parse(cidrs)
        self._metadata = metadata

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: Address) -> bool:
        if not any(address in network for network in self._networks):
            return False
        if _is_closed(address):
            return False
        return self._metadata or not is_metadata(address)


def _is_closed(address: Address) -> bool:
    if any(address in network for network in _CLOSED):
        return True
    if isinstance(address, IPv4Address):
        return False
    if address.scope_id is not None or (address in _COMPATIBLE_6 and address != _LOOPBACK_6):
        return True
    # ISATAP hides its IPv4 behind this interface identifier, in any prefix.
    return (int(address) >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE)


def _parse(cidrs: Iterable[str]) -> tuple[Network, ...]:
    networks: list[Network] = []
    problems: list[str] = []
    for cidr in cidrs:
        try:
            networks.append(ip_network(cidr.strip()))
        except ValueError as error:
            problems.append(f"egress allow list: expected a network such as 10.0.0.0/8, got {cidr!r} ({error})")
    if problems:
        raise ConfigError(problems)
    return tuple(networks)
