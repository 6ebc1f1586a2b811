"""A generator of hostile URL spellings, and of ordinary URLs, from a seed."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

INSIDE_4 = [
    *("127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "169.254.170.2", "100.100.100.200", "100.64.0.1", "192.0.0.192", "168.63.129.16"),
    *("198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1"),
]
INSIDE_6 = [
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "100::1",
    "3fff::1",
]
SCHEMES = ["http", "https", "HTTP", "hTtPs"]
WIDE = str.maketrans(
    string.digits + string.ascii_lowercase + ".",
    "０１２３４５６７８９ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ。",
)
CIRCLED = str.maketrans(string.digits + string.ascii_lowercase, "⓪①②③④⑤⑥⑦⑧⑨ⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩ")


def hostile(seed: int, count: int, port: int) -> Iterator[str]:
    """URLs that some parser or resolver takes for an address inside; *port* is where a canary listens."""
    roll = random.Random(seed)
    for _ in range(count):
        host = roll.choice(_HOSTS)(roll)
        url = roll.choice(_FRAMES)(roll, host, port)
        yield roll.choice(_NOISE)(roll, url) if roll.random() < 0.2 else url


def ordinary(seed: int, count: int) -> Iterator[str]:
    """URLs such as people have."""
    roll = random.Random(seed)
    for _ in range(count):
        kind = roll.random()
        if kind < 0.85:
            labels = [_label(roll) for _ in range(roll.randint(1, 4))]
            host = ".".join(
                [*labels, roll.choice(["com", "io", "dev", "co.uk", "example", "xn--p1ai", "app", "internal"])]
            )
        elif kind < 0.95:
            first = roll.choice([1, 8, 23, 52, 93, 104, 151, 185, 203])
            host = f"{first}.{roll.randint(114, 250)}.{_byte(roll)}.{_byte(roll)}"
        else:
            host = f"[2a0{roll.randint(0, 9)}:{roll.randrange(65536):x}::{roll.randrange(1, 65536):x}]"
        port = roll.choice(["", "", "", ":443", ":8443", ":8080", ":3000", ":65535", ":10443"])
        path = "".join(f"/{_segment(roll)}" for _ in range(roll.randint(0, 4)))
        query = roll.choice(["", "", f"?token={_segment(roll)}", "?a=1&b[]=2&c=%20", "?x=http://127.0.0.1/&y=@me"])
        yield f"https://{host}{port}{path or roll.choice(['', '/'])}{query}"


def _byte(roll: random.Random) -> int:
    return roll.randrange(256)


def _label(roll: random.Random) -> str:
    inner = "".join(roll.choices(string.ascii_lowercase + string.digits + "-", k=roll.randint(0, 12)))
    return roll.choice(string.ascii_letters) + inner + roll.choice(string.ascii_lowercase + string.digits)


def _segment(roll: random.Random) -> str:
    return "".join(roll.choices(string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@", k=roll.randint(1, 16)))


def _legacy(roll: random.Random) -> str:
    """An IPv4 address as `inet_aton` reads it: 1-4 parts, each decimal, octal or hex, with zeros before."""
    value = int(IPv4Address(roll.choice(INSIDE_4)))
    parts = roll.randint(1, 4)
    numbers = [(value >> (24 - 8 * n)) & 255 for n in range(parts - 1)]
    numbers.append(value & ((1 << (32 - 8 * (parts - 1))) - 1))
    if roll.random() < 0.1:
        numbers[-1] += 1 << 32  # some wrap round
    zeros = "0" * roll.choice([0, 0, 0, 1, 5])
    styles = [
        str,
        lambda n: f"0{zeros}{n:o}",
        lambda n: f"0x{zeros}{n:x}",
        lambda n: f"0X{n:X}",
        lambda n: zeros + str(n),
    ]
    text = ".".join(roll.choice(styles)(number) for number in numbers)
    # All four in plain decimal is the one canonical spelling; it is still an address inside.
    return text + roll.choice(["", "", "", "."])


def _six(roll: random.Random) -> str:
    """An IPv6 address inside, or one with an IPv4 address inside it, in any spelling."""
    if roll.random() < 0.4:
        value = int(IPv6Address(roll.choice(INSIDE_6)))
    else:
        four = int(IPv4Address(roll.choice(INSIDE_4)))
        value = roll.choice(
            [
                four,
                (0xFFFF << 32) | four,
                (0xFFFF << 48) | four,
                (0x64FF9B << 96) | four,
                (0x64FF9B0001 << 80) | four,
                (0x2002 << 112) | (four << 80) | 1,
                (0x20010000 << 96) | (four << 64) | (four ^ 0xFFFFFFFF),
                (0xFE80 << 112) | (0x5EFE << 32) | four,
            ]
        )
    address = IPv6Address(value)
    text = roll.choice([address.compressed, address.exploded, address.compressed.upper()])
    if roll.random() < 0.2:
        text = f"{text.rpartition(':')[0].rpartition(':')[0] or ':'}:{IPv4Address(value & 0xFFFFFFFF)}"
    return f"[{text}{roll.choice(['', '', '', '%25lo', '%lo', '%', '/128'])}]"


def _unicode(roll: random.Random) -> str:
    plain = roll.choice([*INSIDE_4, "localhost", "metadata.google.internal"])
    changed = plain.translate(roll.choice([WIDE, CIRCLED]))
    at = roll.randrange(len(plain))
    return roll.choice(
        [changed, plain[:at] + changed[at:], plain[:at] + roll.choice("\u00ad\u200b\u2060\ufeff") + plain[at:]]
    )


def _escaped(roll: random.Random) -> str:
    plain = roll.choice([*INSIDE_4, "localhost"])
    return "".join(f"%{ord(one):02x}" if roll.random() < 0.5 else one for one in plain)


def _name(roll: random.Random) -> str:
    """A name that only the resolver can tell apart; the test's resolver gives it an address inside."""
    return roll.choice(
        [
            *("localtest.me", "127.0.0.1.nip.io", "metadata.google.internal", "a.test", "instance-data.ec2.internal"),
            *(
                "localhost",
                "LOCALHOST",
                "localhost.",
                "ip6-localhost",
                "x.localhost",
                "intranet",
                "kubernetes.default.svc",
            ),
            f"{_label(roll)}.{_label(roll)}.test",
            f"{roll.choice(INSIDE_4)}.{_label(roll)}.test",
        ]
    )


_HOSTS = [
    lambda roll: roll.choice(INSIDE_4),
    *(_legacy, _legacy, _legacy, _six, _six, _unicode, _escaped, _name, _name),
    lambda roll: f"[{roll.choice(INSIDE_4)}]",
    lambda roll: roll.choice(INSIDE_6),
]  # fmt: skip


def _plain(roll: random.Random, host: str, port: int) -> str:
    where = roll.choice(["", "/", "/latest/meta-data/", "?x", "/x?y=z"])
    there = roll.choice(["", f":{port}", f":{port}", ":80", ":0", ":99999", f":0{port}"])
    return f"{roll.choice(SCHEMES)}://{host}{there}{where}"


def _confused(roll: random.Random, host: str, port: int) -> str:
    good = "good.example"
    join = roll.choice(
        ["@", "\\@", "#@", "?@", "/@", ":@", "%40", "%2f@", ";@", ",@", " @", "\t@", "\\", "#", "@@", "&@", "|", "%00."]
    )
    return f"{roll.choice(SCHEMES)}://{roll.choice([good + join + host, host + join + good])}:{port}/"


def _slashes(roll: random.Random, host: str, port: int) -> str:
    start = roll.choice(
        ["//", "http:", "http:/", "http:///", "https:\\\\", "http:\\/\\/", "://", "", "http;//", "http:////"]
    )
    return f"{start}{host}:{port}/"


def _scheme(roll: random.Random, host: str, port: int) -> str:
    schemes = [
        "file",
        "gopher",
        "dict",
        "ftp",
        "ldap",
        "http+unix",
        "jar:http",
        "httpſ",
        "http\x00",
        " http",
        "view-source:http",
        "h\tttp",
    ]
    return f"{roll.choice(schemes)}://{host}:{port}/"


_FRAMES = [_plain, _plain, _plain, _plain, _confused, _confused, _slashes, _scheme]


def _inserted(roll: random.Random, url: str) -> str:
    at = roll.randrange(len(url) + 1)
    return (
        url[:at]
        + roll.choice(["\t", "\n", "\r", "\x00", " ", "\u00a0", "\u3000", "\\", "#", "@", "\x7f", "／", "\u202e"])
        + url[at:]
    )


def _long(roll: random.Random, url: str) -> str:
    return url + "/" + "a" * roll.choice([2_000, 5_000])


_NOISE = [_inserted, _inserted, _inserted, _long, lambda _roll, url: f" {url}", lambda _roll, url: f"{url}\n"]
