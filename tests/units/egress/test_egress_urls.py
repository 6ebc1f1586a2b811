"""URLs that are refused when an endpoint is created or changed: rows S1-S29 and S42 of the attack table.

No row may ask the resolver or open a socket. S30 and S41 (the same on every path of the API) are the API's to show:
each path calls `EgressGuard.check`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hooklane.sender.egress import URL_BYTES_MAX, EgressGuard, UrlNotAllowed


class NoResolver:
    """Fails the test when it is asked."""

    async def lookup(self, host: str) -> Sequence[str]:
        pytest.fail(f"looked {host} up")


REJECTED: dict[str, list[str]] = {
    "S1": ["http://127.0.0.1/", "http://127.0.0.1:8071/"],
    "S2": [
        *("http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://ip6-localhost/"),
        *("http://foo.localhost/", "http://localhost.localdomain./", "http://intranet/"),
    ],
    "S3": ["http://0/", "http://0.0.0.0/", "http://0.1.2.3/"],
    "S4": ["http://127.1/", "http://127.0.1/"],
    "S5": ["http://2130706433/", "http://2852039166/"],
    "S6": ["http://0x7f000001/", "http://0x7f.1/", "http://0xa9.0xfe.0xa9.0xfe/", "http://0X7F.0.0.0x1/", "http://a.0x/"],
    "S7": ["http://0177.0.0.1/", "http://017700000001/", "http://00000177.00000000.00000000.00000001/", "http://127.0.0.01/"],
    "S8": ["http://169.254.43518/"],
    "S9": [
        *("http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://１２７.0.0.1/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/"),
        *("http://loc\u00adalhost/", "http://bücher.example/", "http://good.exampl\u0435/", "httpſ://good.example/"),
    ],
    "S10": ["http://[::1]/", "http://[::]/", "http://[0000::1]:80/"],
    "S11": ["http://[::ffff:127.0.0.1]/", "http://[0:0:0:0:0:ffff:7f00:1]/", "http://[::ﬀﬀ:7f00:1]/"],
    "S12": ["http://[::127.0.0.1]/", "http://[::ffff:0:127.0.0.1]/", "http://[::5efe:10.0.0.1]/"],
    "S13": ["http://[64:ff9b::7f00:1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a9fe:a9fe]/"],
    "S14": [
        *("http://[2002:7f00:1::1]/", "http://[2002:a9fe:a9fe::]/", "http://[2001:0:4136:e378:8000:63bf:80ff:fefe]/"),
    ],
    "S15": [
        *("http://[fe80::1%25lo]/", "http://[fe80::1%lo]/", "http://[::%127.0.0.1]", "http://[fec0::1]/"),
        *("http://[fd00:ec2::254]/", "http://[fe80::1]/"),
    ],
    "S16": [
        *("http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/", "http://100.100.100.200/"),
        *("http://192.0.0.192/", "http://168.63.129.16/"),
    ],
    "S17": [
        *("http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/"),
        *("http://100.64.0.1/", "http://198.18.0.1/", "http://198.19.255.255/"),
    ],
    "S18": [
        *("http://224.0.0.1/", "http://239.255.255.250:1900/", "http://255.255.255.255/", "http://240.0.0.1/"),
        "http://[ff02::1]/",
    ],
    "S19": ["http://[127.0.0.1]/", "http://[good.example]/", "http://::1/", "http://[]/", "http://[::1/", "http://::1]/"],
    "S20": [
        *("file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "dict://127.0.0.1:11211/", "ftp://x/"),
        *("unix:///run/x.sock", "http+unix://%2Frun%2Fx.sock/", "javascript:alert(1)", "//127.0.0.1/"),
        *("http:127.0.0.1/", "http:///127.0.0.1/", "http:/good.example/", "good.example", "", "http://", "https:"),
        *("ws://good.example/", "view-source:https://good.example/", "https//good.example/"),
    ],
    "S21": [
        *("http://127.1.1.1:80\\@127.2.2.2:80/", "http://127.1.1.1:80\\@@127.2.2.2:80/"),
        *("http://127.1.1.1:80#\\@127.2.2.2:80/", "http://good.example\\.evil.example/", "http:\\\\good.example/"),
    ],
    "S22": [
        *("http://good.example@127.0.0.1/", "http://127.0.0.1@good.example/", "http://user:pass@good.example/"),
        *("http://@good.example/", "http://:@good.example/", "http://a@b@good.example/"),
    ],
    "S23": ["http://1.1.1.1 &@2.2.2.2# @3.3.3.3/"],
    "S24": ["http://127.0.0.1\t.good.example/", "http://exa\nmple.com/", "http://good.example/\r\nX-Injected:1"],
    "S25": [
        *("http://good.example\x00.evil/", "http://127.0.0.1%00.good.example/", "http://%31%32%37.0.0.1/"),
        *("http://good%2eexample/", "http://good.example%2f@evil.example/"),
    ],
    "S26": [
        f"http://good.example{port}/"
        for port in (":0", ":99999", ":0x50", ":80a", ":-1", ":", ":25", ":22", ":6379", ":65536", ":+80", ":80:80")
    ],
    "S27": ["http://evil／good.example/", "http://℀.com/", "http://good.example\u2044evil.example/"],
    "S28": [
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 150 + "example/",
        "http://good.example/" + "a" * 5_000,
        "http://" + "a." * 200 + "example/",
    ],
    "S29": [" http://good.example/", "http://good.example/ ", "http://good\u00a0.example/", "http://good.example /", "\thttp://x.example"],
    "labels": [
        *("http://-good.example/", "http://good-.example/", "http://good..example/", "http://.good.example/"),
        *("http://good.example./", "http://good_one.example/", "http://*.example/", "http://good.example,evil.example/"),
        *("http://good.example;evil/", "http://good.example&evil/", "http://1.2.3.4.5/", "http://1.2.3/", "http://256.1.1.1/"),
        *("http://good.example#frag", "http://good.example/#frag", "http://999.999.999.999/", "http://1.2.3.4./"),
    ],
    "special": [
        *("http://192.0.2.1/", "http://198.51.100.7/", "http://203.0.113.9/", "http://192.88.99.1/", "http://[2001:db8::1]/"),
        *("http://[3fff::1]/", "http://[2001:10::1]/", "http://[2001:2::1]/", "http://[100::1]/", "http://[5f00::1]/"),
        *("http://[4000::1]/", "http://[fc00::1]/", "http://[2620:4f:8000::1]/", "http://192.31.196.1/"),
    ],
}  # fmt: skip
CASES = [(row, url) for row, urls in REJECTED.items() for url in urls]
GUARDS = {
    "nothing-allowed": EgressGuard(resolver=NoResolver()),
    # Plain http is then no reason to refuse, so each row must be refused for what it is.
    "something-allowed": EgressGuard(resolver=NoResolver(), allow=["10.77.0.0/16"]),
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize(("row", "url"), CASES, ids=[f"{row}-{number}" for number, (row, _) in enumerate(CASES)])
def test_a_url_in_disguise_is_refused_by_its_spelling(guard: str, row: str, url: str) -> None:
    for spelling in {url, url.replace("http://", "https://", 1), url.replace("http://", "HTTP://", 1)}:
        with pytest.raises(UrlNotAllowed) as refused:
            GUARDS[guard].check(spelling)
        assert refused.value.code == "url_not_allowed"
        assert "127." not in str(refused.value)


ACCEPTED = [
    "https://good.example/",
    "https://good.example",
    "https://good.example?x=1",
    "https://good.example:8443/hooks/7?token=a%20b&x=[1]",
    "https://xn--bcher-kva.example/",
    "HTTPS://Good.Example/Path",
    "https://a-b.c--d.example/~user/@me;v=1,2/(x)!$'*+",
    "https://1.1.1.1/",
    "https://8.8.8.8:443/",
    "https://[2606:4700:4700::1111]/",
    "https://[2001:4860:4860::8888]:8443/x",
    "https://3com.example.co.uk/",
    "https://0x7f.example/",
    "https://127.0.0.1.example.com/",
    "https://good.example/%0d%0aX-Injected:1",
    "https://" + "a" * 63 + ".example/",
]


@pytest.mark.parametrize("url", ACCEPTED)
def test_an_ordinary_url_is_accepted(url: str) -> None:
    for guard in GUARDS.values():
        destination = guard.check(url)
        assert destination.secure
        assert destination.path.startswith("/")


def test_a_url_is_taken_apart_as_it_goes_on_the_wire() -> None:
    guard = GUARDS["nothing-allowed"]

    mixed = guard.check("HTTPS://Good.Example:8443?A=b")
    assert (mixed.host, mixed.port, mixed.path, mixed.authority) == ("good.example", 8443, "/?A=b", "good.example:8443")
    six = guard.check("https://[2606:4700:4700:0:0:0:0:1111]/")
    assert (six.host, six.authority) == ("2606:4700:4700::1111", "[2606:4700:4700::1111]")
    assert guard.check("https://good.example:443/").authority == "good.example"
    plain = EgressGuard(resolver=NoResolver(), allow=["127.0.0.0/8"])
    hosts = [plain.check(f"http://127.0.0.1{port}/").authority for port in ("", ":80", ":8081", ":443")]
    assert hosts == ["127.0.0.1", "127.0.0.1", "127.0.0.1:8081", "127.0.0.1:443"]


def test_a_url_may_be_as_long_as_the_limit_and_no_longer() -> None:
    guard, start = GUARDS["nothing-allowed"], "https://good.example/"
    longest = start + "a" * (URL_BYTES_MAX - len(start))

    assert guard.check(longest).path == longest.removeprefix("https://good.example")
    with pytest.raises(UrlNotAllowed, match="at most 2048 bytes"):
        guard.check(longest + "a")


def test_credentials_in_a_url_are_told_where_to_go() -> None:
    with pytest.raises(UrlNotAllowed, match="header of the endpoint"):
        GUARDS["nothing-allowed"].check("https://user:pass@good.example/")


def test_plain_http_is_for_the_operators_networks_only() -> None:
    guard = EgressGuard(resolver=NoResolver(), allow=["10.77.0.0/16"])

    guard.check("http://10.77.1.2:8080/")
    guard.check("https://10.77.1.2/")
    guard.check("http://service.internal.example/")  # its addresses are judged when it is used
    for url in ("http://1.1.1.1/", "http://10.78.0.1/", "https://10.78.0.1/", "http://10.77.1.2:6379/"):
        with pytest.raises(UrlNotAllowed):
            guard.check(url)


def test_localhost_is_its_exact_name_and_only_with_the_loopback_allowed() -> None:
    guard = EgressGuard(resolver=NoResolver(), allow=["127.0.0.0/8", "::1/128"])

    for url in (
        "http://localhost:8071/",
        "https://localhost/",
        "http://127.0.0.1:6379/",
        "http://[::1]:22/",
        "http://LOCALHOST/",
    ):
        guard.check(url)
    for url in (
        "http://localhost./",
        "http://foo.localhost/",
        "http://ip6-localhost/",
        "http://10.0.0.1/",
        "http://127.1/",
    ):
        with pytest.raises(UrlNotAllowed):
            guard.check(url)


@pytest.mark.parametrize("row", ["S42"])
def test_the_operators_list_does_not_open_the_metadata_service(row: str) -> None:
    metadata = (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("[fd00:ec2::254]", "[fe80::1]", "[fd20:ce::254]"),
    )
    wide = ["10.0.0.0/8", "0.0.0.0/0", "::/0", "169.254.0.0/16"]
    for host in metadata:
        with pytest.raises(UrlNotAllowed):
            EgressGuard(allow=["10.0.0.0/8"]).check(f"http://{host}/")
        with pytest.raises(UrlNotAllowed):
            EgressGuard(allow=wide).check(f"http://{host}/")
        EgressGuard(allow=wide, allow_metadata=True).check(f"http://{host}/")


def test_no_list_opens_an_ipv4_address_inside_an_ipv6_address() -> None:
    guard = EgressGuard(allow=["::/0", "0.0.0.0/0"], allow_metadata=True)
    hidden = (
        *("::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe"),
        *("64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "fd00::5efe:169.254.169.254"),
        *("fd00::200:5efe:a9fe:a9fe", "::", "ff02::1"),
    )
    for host in hidden:
        with pytest.raises(UrlNotAllowed):
            guard.check(f"https://[{host}]/")
    with pytest.raises(UrlNotAllowed):
        guard.check("https://0.0.0.0/")
