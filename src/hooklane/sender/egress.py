"""May a delivery go there? The one guard, used wherever a URL is set or used.

`check` judges the spelling of a URL and a literal address in it, without any lookup: for create and update.
`vet` asks the resolver once and judges every answer: for each new connection. That is made to a vetted
address and never looks the name up again, so a name that changes its mind between the two cannot get through.

The grammar is our own and small. Libraries disagree about what a URL means, and each disagreement is a way in.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from hooklane.errors import UsageError
from hooklane.model.exchange import Failure
from hooklane.sender.addresses import Address, AllowList, is_public
from hooklane.sender.resolver import LOOKUP_LIMIT_S, DnsError, Resolver, ThreadResolver

URL_BYTES_MAX = 2_048
ANSWERS_MAX = 16

# What browsers refuse (the bad ports of the fetch standard), and databases, caches and control planes.
# fmt: off
PORTS_DENIED = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1433, 1521, 1719, 1720, 1723, 1900, 2049, 2375,
    2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 4369, 5060, 5061, 5432, 5672, 5900, 6000, 6379, 6566, 6665, 6666,
    6667, 6668, 6669, 6679, 6697, 9042, 9092, 10080, 10250, 10255, 11211, 27017,
})
# fmt: on

_PRINTABLE = re.compile(r"[!-~]+")
_URL = re.compile(r"([Hh][Tt][Tt][Pp][Ss]?)://([^/?]*)([/?].*)?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z.-]{1,253})(?::([1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?")
_NUMERIC = re.compile(r"[0-9]+|0[Xx][0-9A-Fa-f]*")
_QUAD = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_LOCALHOST = "localhost"
_LOOPBACKS: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class UrlNotAllowed(UsageError):
    """Deliveries may not go to this URL, so it was not stored; the message says what to change, never what is there."""

    code = "url_not_allowed"


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL whose spelling was allowed, taken apart once."""

    secure: bool
    host: str
    """Lower case, without brackets: the name for SNI and the certificate."""
    port: int
    path: str
    """Path and query, as they go on the wire."""
    literal: Address | None

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """No connection may be made now: the target is not allowed, or its name has no address."""

    failure: Failure
    detail: str


class EgressGuard:
    """The rules of one process; tenants cannot widen them."""

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        allow_metadata: bool = False,
        dns64: bool = False,
        resolver: Resolver | None = None,
        ports_denied: frozenset[int] = PORTS_DENIED,
    ) -> None:
        """*allow*: the operator's networks, with plain http. They never open link-local addresses and the metadata
        services of clouds; *allow_metadata* does, and hands their credentials to every tenant."""
        self._allow = AllowList(allow, metadata=allow_metadata)
        self._dns64 = dns64
        self._resolver = resolver if resolver is not None else ThreadResolver()
        self._ports_denied = ports_denied
        self._loopbacks = tuple(address for address in _LOOPBACKS if address in self._allow)

    def check(self, url: str) -> Destination:
        """*url* taken apart, or UrlNotAllowed. Never looks a name up and never opens a socket."""
        destination = parse(url)
        literal = destination.literal
        if literal is not None:
            if not self._may_reach(literal, destination.secure):
                raise _not_allowed(destination.secure)
        elif destination.host == _LOCALHOST:
            if not self._loopbacks:
                raise _not_allowed(destination.secure)
        elif not destination.secure and not self._allow:
            raise _not_allowed(destination.secure)
        if destination.port in self._ports_denied and not self._is_open_loopback(destination):
            raise UrlNotAllowed(f"port {destination.port} is not allowed")
        return destination

    async def vet(self, destination: Destination) -> tuple[Address, ...] | Refusal:
        """Every address of *destination*, when each of them may be reached; otherwise why there is none."""
        if destination.literal is not None:
            return (destination.literal,) if self._may_reach(destination.literal, destination.secure) else _BLOCKED
        if destination.host == _LOCALHOST:
            return self._loopbacks or _BLOCKED  # from our own table: what a resolver says of this name is no matter
        try:
            async with asyncio.timeout(LOOKUP_LIMIT_S):
                answers = await self._resolver.lookup(destination.host)
        except TimeoutError:
            return Refusal(Failure.DNS, f"no answer within {LOOKUP_LIMIT_S:g} s")
        except DnsError as error:
            return Refusal(Failure.DNS, str(error))
        if not answers:
            return Refusal(Failure.DNS, "the name has no address")
        if len(answers) > ANSWERS_MAX:
            return Refusal(Failure.DNS, f"more than {ANSWERS_MAX} addresses")
        try:
            addresses = tuple(dict.fromkeys(ip_address(answer) for answer in answers))
        except ValueError:
            return Refusal(Failure.DNS, "the resolver answered something that is no address")
        # One bad answer condemns all: to use the rest would let a name mix a public address with ours and wait.
        if all(self._may_reach(address, destination.secure) for address in addresses):
            return addresses
        return _BLOCKED

    def _may_reach(self, address: Address, secure: bool) -> bool:
        return address in self._allow or (secure and is_public(address, dns64=self._dns64))

    def _is_open_loopback(self, destination: Destination) -> bool:
        # Development servers run on any port; check() has already made sure that the operator opened the loopback.
        return destination.host == _LOCALHOST or (destination.literal is not None and destination.literal.is_loopback)


_BLOCKED = Refusal(Failure.TARGET_NOT_ALLOWED, "an address of this host is not allowed")


def _not_allowed(secure: bool) -> UrlNotAllowed:
    # One text for all addresses: it must not tell what is private, loopback or metadata here.
    return UrlNotAllowed("this host is not allowed" if secure else "this host is not allowed over plain http")


def parse(url: str) -> Destination:
    """*url* by our own grammar, or UrlNotAllowed with what to change; nothing is stripped, decoded or repaired."""
    if len(url) > URL_BYTES_MAX:
        raise UrlNotAllowed(f"a URL has at most {URL_BYTES_MAX} bytes")
    if not _PRINTABLE.fullmatch(url):
        raise UrlNotAllowed("a URL is printable ASCII without spaces; percent-encode the rest, write IDN hosts as xn--")
    if "\\" in url or "#" in url:
        raise UrlNotAllowed("a URL has no backslash and no fragment here")
    if not (whole := _URL.fullmatch(url)):
        raise UrlNotAllowed("a URL begins with https:// (or http:// where the operator allowed the address)")
    scheme, authority, path = whole.groups()
    if "@" in authority:
        raise UrlNotAllowed("credentials in a URL are not allowed; send them as a header of the endpoint")
    if not (parts := _AUTHORITY.fullmatch(authority)):
        raise UrlNotAllowed("the host or port is not valid; a host is a full domain name, an IPv4 or a [IPv6] address")
    name, port_text = parts.groups()
    secure = scheme.lower() == "https"
    port = int(port_text) if port_text else (443 if secure else 80)
    if port > 65_535:
        raise UrlNotAllowed("a port is a number from 1 to 65535")
    host, literal = _host(name)
    path = path or "/"
    return Destination(secure, host, port, path if path[0] == "/" else f"/{path}", literal)


def _host(name: str) -> tuple[str, Address | None]:
    try:
        if name[0] == "[":
            literal = IPv6Address(name[1:-1])
            return literal.compressed, literal
        if _QUAD.fullmatch(name):
            quad = IPv4Address(name)
            return str(quad), quad
    except AddressValueError:
        raise UrlNotAllowed("the address in the host is not valid") from None
    host = name.lower()
    labels = host.split(".")
    if host == _LOCALHOST:
        return host, None
    if len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlNotAllowed("a host is a full domain name such as hooks.example.com")
    if _NUMERIC.fullmatch(labels[-1]):  # some resolvers read such names as addresses: 0x7f.1, 127.1, 2130706433
        raise UrlNotAllowed("an IPv4 address is written as four decimal numbers")
    if labels[-1] == _LOCALHOST:
        raise UrlNotAllowed("this host is not allowed")
    return host, None
