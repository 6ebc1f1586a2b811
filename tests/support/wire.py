"""The wire between hosts that are network namespaces: every packet passes here, and is dropped or kept back as told.

The kernel's own tools for that (netem, iptables) are not on every machine; a tun device is. So each host has one, whose
other end is a file of this process: a packet that is read from one is written to the one whose address it names.

`python -m tests.support.wire PID=ADDRESS,ADDRESS PID=ADDRESS` gives the network namespace of each process its addresses
and says `ready`. A line of JSON on stdin, `{"from": [...], "to": [...], "cut": true, "delay_s": 0.1, "loss": 0.2,
"bytes_per_s": 50000}`, sets the links from those addresses to these; it is answered by `done`. Ends when stdin does.
"""

from __future__ import annotations

import fcntl
import heapq
import ipaddress
import itertools
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TUN = Path("/dev/net/tun")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 9_000
WAITING_MAX_S = 1.0
"""A narrow link keeps packets back for so long; what comes on top is dropped, as a router's queue does."""
BITS = 16
"""Of every address: one network holds all hosts."""


@dataclass(slots=True)
class Link:
    """How packets pass from one address to another."""

    cut: bool = False
    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float = 0.0
    free_at: float = 0.0

    def arrives_at(self, now: float, size: int, chance: random.Random) -> float | None:
        """When a packet that was sent *now* comes out; None if never."""
        if self.cut or (self.loss and chance.random() < self.loss):
            return None
        at = now
        if self.bytes_per_s:
            at = max(now, self.free_at)
            if at - now > WAITING_MAX_S:
                return None
            self.free_at = at = at + size / self.bytes_per_s
        return at + self.delay_s


class Wire:
    """Passes packets between tun devices until stdin ends."""

    def __init__(self, hosts: dict[int, list[str]]) -> None:
        self._out: dict[bytes, int] = {}
        self._links: dict[tuple[bytes, bytes], Link] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self._chance = random.Random(1)
        self._poll = select.poll()
        self._poll.register(sys.stdin, select.POLLIN)
        for number, (pid, addresses) in enumerate(hosts.items()):
            device = attach(f"wire{os.getpid()}_{number}"[:15], pid, addresses)
            self._poll.register(device, select.POLLIN)
            for address in addresses:
                self._out[ipaddress.ip_address(address).packed] = device

    def run(self) -> None:
        while True:
            rest_ms = max(0.0, (self._late[0][0] - time.monotonic()) * 1_000) if self._late else None
            for ready, _ in self._poll.poll(rest_ms):
                if ready == sys.stdin.fileno():
                    line = sys.stdin.buffer.raw.readline()  # type: ignore[attr-defined]
                    if not line:
                        return
                    self._set(json.loads(line))
                    print("done", flush=True)
                else:
                    self._pass(ready)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._late)
                put(device, packet)

    def _set(self, wanted: dict[str, object]) -> None:
        froms, tos = wanted.pop("from"), wanted.pop("to")
        assert isinstance(froms, list)
        assert isinstance(tos, list)
        for here, there in itertools.product(froms, tos):
            pair = (ipaddress.ip_address(here).packed, ipaddress.ip_address(there).packed)
            if wanted:
                self._links[pair] = Link(**wanted)  # type: ignore[arg-type]
            else:
                self._links.pop(pair, None)

    def _pass(self, device: int) -> None:
        with suppress(BlockingIOError):
            for _ in range(64):
                packet = os.read(device, 65_535)
                if packet[0] >> 4 != 4 or (out := self._out.get(packet[16:20])) is None:
                    continue
                link = self._links.get((packet[12:16], packet[16:20]))
                if link is None:
                    put(out, packet)
                elif (at := link.arrives_at(time.monotonic(), len(packet), self._chance)) is not None:
                    heapq.heappush(self._late, (at, next(self._numbers), out, packet))


def attach(name: str, pid: int, addresses: list[str]) -> int:
    """The file whose packets come from, and go to, the network namespace of that process."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", str(pid)], check=True)
    inside = [f"addr add {address}/{BITS} dev {name}" for address in addresses]
    inside += [f"link set {name} mtu {MTU} up", "link set lo up"]
    subprocess.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"],
        input="\n".join(inside),
        text=True,
        check=True,
    )
    return device


def put(device: int, packet: bytes) -> None:
    with suppress(OSError):  # that host is gone, or gets more than it reads
        os.write(device, packet)


def main() -> None:
    hosts = {int(pid): addresses.split(",") for pid, _, addresses in (word.partition("=") for word in sys.argv[1:])}
    wire = Wire(hosts)
    print("ready", flush=True)
    wire.run()


if __name__ == "__main__":
    main()
