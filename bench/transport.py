"""How fast is the transport beside the limit of this machine, and how quiet beside 1,000 hostile endpoints?

`python -m bench.transport [--seconds 3] [--rounds 3] [--connections 64] [--hostile 1000]`

Rounds interleave wrk and the transport against the same nginx, both sending the same POST; the figures are requests for
each second of the client's own CPU time. Deadlines, caps, counters and timings are on: there is no way without them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.crowd import run_crowd
from bench.hostile import hostile_server
from hooklane.model.exchange import Answer, Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport import Transport

HEADERS = (
    b"Content-Type: application/json\r\n"
    b"webhook-id: evt_01hzy3v5k0x8q2m4n6p8r0s2t4\r\n"
    b"webhook-timestamp: 1767225600\r\n"
    b"webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=\r\n"
    b"Idempotency-Key: evt_01hzy3v5k0x8q2m4n6p8r0s2t4\r\n"
    b"X-Key: order%3A7\r\nX-Seq: 7\r\nX-Prev-Seq: 6\r\nX-Attempt: 1\r\n"
)
BODY = b'{"id":"evt_01hzy3v5k0x8q2m4n6p8r0s2t4","type":"order.created","data":"%b"}' % (b"x" * 200)


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one client."""

    requests: int
    seconds: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.requests / self.cpu_s


def tool(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        sys.exit(f"this benchmark needs {name} on PATH (apt-get install {name})")
    return path


@contextlib.contextmanager
def nginx() -> Iterator[int]:
    """An nginx with one worker that answers 200 at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="hooklane-bench-") as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(
            f"""
            {"user root;" if os.geteuid() == 0 else ""}
            daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
            events {{ worker_connections 4096; }}
            http {{
                access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;
                server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "ok"; }} }}
            }}
            """
        )
        server = subprocess.Popen([tool("nginx"), "-p", folder, "-c", str(config)], preexec_fn=lambda: pin(-1))
        try:
            wait_for_port(port)
            yield port
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(10)


def pin(number: int) -> None:
    """Run on one CPU only: client and server that change places between two CPUs cost up to a third more or less."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[number]})


def wait_for_port(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    sys.exit(f"the server on port {port} did not start within 5 s")


def run_wrk(port: int, connections: int, seconds: int) -> Measured:
    """wrk with the transport's own request."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("wrk.method = 'POST'\n")
        for line in HEADERS.decode().split("\r\n")[:-1]:
            name, value = line.split(": ", 1)
            script.write(f"wrk.headers[{name!r}] = {value!r}\n")
        script.write(f"wrk.body = {BODY.decode()!r}\n")
        script.flush()
        command = [tool("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run([*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"(\d+) requests in ([\d.]+)s", said.stdout)
    assert found, said.stdout
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Measured(int(found[1]), float(found[2]), cpu_s)


async def run_transport(port: int, connections: int, seconds: float) -> Measured:
    """The transport with *connections* requests under way all the time."""
    transport = Transport(EgressGuard(allow=["127.0.0.0/8"]))
    target = Target("ep_bench", f"http://127.0.0.1:{port}/")
    answers = 0
    failed: list[Result] = []
    running = True

    def done(result: Result) -> None:
        nonlocal answers
        if isinstance(result, Answer) and result.status == 200:
            answers += 1
        else:
            failed.append(result)
        if running:
            transport.send(target, HEADERS, BODY, done)

    cpu, started = time.process_time(), time.monotonic()
    for _ in range(connections):
        transport.send(target, HEADERS, BODY, done)
    await asyncio.sleep(seconds)
    measured = Measured(answers, time.monotonic() - started, time.process_time() - cpu)
    running = False
    await transport.close(1_000)
    assert not failed, failed[0]
    return measured


def speed(seconds: int, rounds: int, connections: int) -> None:
    ratios = []
    with nginx() as port:
        pin(0)
        for run in LOOPS.values():  # not counted: the interpreter is still making up its mind about the types it meets
            run(run_transport(port, connections, 1))
        for number in range(1, rounds + 1):
            wrk = run_wrk(port, connections, seconds)
            results = {"wrk": wrk}
            for name, run in LOOPS.items():
                gc.collect()
                results[name] = run(run_transport(port, connections, seconds))
            for name, measured in results.items():
                ratio = measured.per_cpu_second / wrk.per_cpu_second
                print(
                    f"round {number}  {name:18}  {measured.per_second:9,.0f} req/s  "
                    f"{measured.per_cpu_second:9,.0f} req/CPU-s  {1e6 / measured.per_cpu_second:6.2f} µs CPU/req  "
                    f"{ratio:5.2f} x wrk per core  {measured.per_second / wrk.per_second:5.2f} x wrk→nginx"
                )
                if name == "transport/uvloop":
                    ratios.append(ratio)
    print(f"transport/uvloop, median: {statistics.median(ratios):.2f} x wrk per core (goal 0.40)")


LOOPS: dict[str, Callable[..., Measured]] = {"transport/uvloop": uvloop.run, "transport/asyncio": asyncio.run}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--hostile", type=int, default=1_000)
    chosen = options.parse_args()
    everywhere = os.sched_getaffinity(0)
    speed(chosen.seconds, chosen.rounds, chosen.connections)
    os.sched_setaffinity(0, everywhere)
    if chosen.hostile:
        with hostile_server() as healthy_port, hostile_server() as hostile_port:
            crowd = run_crowd(hostile_port, healthy_port, endpoints=chosen.hostile, timeout_ms=5_000, every_ms=2)
            print(uvloop.run(crowd))


if __name__ == "__main__":
    main()
