"""What a packet meets on links that are told to fail: run in namespaces of its own by test_hosts_network.py."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.support.hosts import Network

ECHO = """
import socket, sys
from tests.support.hosts import enter
enter("there", sys.argv[2])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 7))
print(socket.gethostname(), flush=True)
while True:
    data, peer = server.recvfrom(2_000)
    server.sendto(data, peer)
"""
PATIENCE_S = 0.5


def answered(probe: socket.socket, many: int = 1) -> int:
    """How many of so many packets come back."""
    for number in range(many):
        probe.send(b"%d" % number)
    back = 0
    try:
        while back < many:
            probe.recv(2_000)
            back += 1
    except TimeoutError:
        pass
    return back


def main() -> None:
    with Network(Path(sys.argv[1]), here=("here",), there=("there",)) as network:
        there = network["there"]
        command = [sys.executable, "-c", ECHO, there.address, there.namespace]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echo:
            assert echo.stdout is not None
            seen: dict[str, object] = {"hosts have names": echo.stdout.readline().strip()}
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((there.address, 7))
                probe.settimeout(PATIENCE_S)
                seen["clear"] = bool(answered(probe))
                network.link("here", "there", cut=True)
                seen["cut"] = bool(answered(probe))
                network.heal("here", "there")
                seen["healed"] = bool(answered(probe))
                network.link("there", "here", one_way=True, cut=True)
                seen["their answers are cut"] = bool(answered(probe))
                network.heal("here", "there")
                network.isolate("there")
                seen["isolated"] = bool(answered(probe))
                network.join("there")
                seen["joined"] = bool(answered(probe))
                network.link("here", "there", delay_s=0.1)
                began = time.monotonic()
                seen["slow is slow"] = bool(answered(probe)) and time.monotonic() - began >= 0.2
                network.link("here", "there", loss=0.5)
                seen["lossy loses some"] = 0 < answered(probe, 60) < 60
            echo.kill()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
