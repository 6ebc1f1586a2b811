"""The address table, against the registries and against Python's own idea of them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.errors import ConfigError
from hooklane.sender.addresses import AllowList, is_metadata, is_public

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
    *("168.63.129.15", "168.63.129.17", "2606:4700::1", "2a00:1450:4001::1", "2001:200::1", "2001:4860::1"),
    *("2003::1", "2001:db7::1", "2001:db9::1", "3ffe::1", "2620:4f:8001::1"),
]
SPECIAL = [
    *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1"),
    *("127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.255.255", "172.16.0.0", "172.31.255.255"),
    *("192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170", "192.0.0.171", "192.0.0.192", "192.0.2.255"),
    *("192.31.196.1", "192.52.193.1", "192.88.99.2", "192.168.0.0", "192.175.48.1", "198.18.0.0", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"),
    *("::", "::1", "::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "100:0:0:1::1"),
    *("2001::1", "2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1"),
    *("2001:1ff::1", "2001:db8::1", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "5f00::1"),
    *("fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "4000::1", "1fff::1", "fe80::1%1"),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_an_ordinary_address_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", SPECIAL)
def test_a_special_address_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


addresses = st.ip_addresses() | st.ip_addresses(v=4) | st.ip_addresses(v=6, network="2000::/3")


@given(addresses)
def test_what_python_knows_to_be_special_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local:
        assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_with_dns64_a_nat64_address_is_judged_by_the_address_inside(inside: IPv4Address) -> None:
    outside = IPv6Address((0x64FF9B << 96) | int(inside))

    assert not is_public(outside)
    assert is_public(outside, dns64=True) == is_public(inside)


@given(addresses)
def test_no_list_opens_a_metadata_address_without_the_second_flag(address: IPv4Address | IPv6Address) -> None:
    everything = AllowList(["0.0.0.0/0", "::/0"])

    if is_metadata(address):
        assert address not in everything
    assert address not in AllowList([])


METADATA = [
    *("100.100.100.200", "168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.255.255", "192.0.0.192"),
    *("fd00:ec2::254", "fd00:ec2:ffff::1", "fd20:ce::254", "fe80::1", "febf:ffff::1"),
]
NO_HOSTS = [
    *("0.0.0.0", "0.255.255.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255", "ff00::", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "64:ff9b:1:ffff::1"),
    *("2001::1", "2001:0:ffff::1", "2002:7f00:1::", "2002:ffff::1", "::", "::2", "::7f00:1", "::ffff:ffff"),
    *("fd00::5efe:7f00:1", "fd00::200:5efe:7f00:1", "2606:4700::5efe:a9fe:a9fe", "fd00::1%1"),
]
OPENED = [
    *("10.0.0.1", "127.0.0.1", "127.255.255.255", "192.168.0.1", "172.16.0.1", "100.64.0.1", "100.100.100.199"),
    *(
        "100.100.100.201",
        "192.0.0.191",
        "192.0.0.193",
        "168.63.129.15",
        "169.253.255.255",
        "8.8.8.8",
        "223.255.255.255",
    ),
    *("::1", "fd00::1", "fd00:ec1::1", "fd00:ec3::1", "fd20:cd::1", "fd20:cf::1", "fec0::1"),
    *("2001:1::1", "2003::1", "::1:0:0", "fd00::5eff:7f00:1", "fd00::100:5efe:7f00:1", "fd00::1200:5efe:7f00:1"),
]


@pytest.mark.parametrize("text", METADATA)
def test_metadata_and_link_local_addresses_are_behind_a_second_flag(text: str) -> None:
    address = ip_address(text)

    assert address not in AllowList(["0.0.0.0/0", "::/0"])
    assert address in AllowList(["0.0.0.0/0", "::/0"], metadata=True)


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_is_no_host_or_hides_an_ipv4_address_is_opened_by_no_list_and_no_flag(text: str) -> None:
    assert ip_address(text) not in AllowList(["0.0.0.0/0", "::/0"], metadata=True)


@pytest.mark.parametrize("text", OPENED)
def test_a_list_opens_what_it_covers_and_nothing_else(text: str) -> None:
    address = ip_address(text)
    every = AllowList(["0.0.0.0/0", "::/0"])
    elsewhere = AllowList(["203.0.113.0/24", "2606:4700::/32"])

    assert address in every
    assert address not in elsewhere
    assert address in AllowList(["203.0.113.0/24", f"{text}/{address.max_prefixlen}"])
    assert bool(every)
    assert not AllowList([])


@pytest.mark.parametrize("cidrs", [["10.0.0.1/8"], ["ten"], ["10.0.0.0/8", ""], ["::1/129"], ["127.0.0.1:80"]])
def test_a_wrong_network_is_refused_with_what_was_expected(cidrs: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"expected a network such as 10\.0\.0\.0/8"):
        AllowList(cidrs)
