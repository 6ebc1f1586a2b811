"""nginx twice: the limit of what a server can do here, and the sink that the deliveries go to.

The sink writes down key, seq and id of every delivery in the order in which it answered, into a buffered log: nothing
that could check the order while it happens is as cheap.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.machine import Cost, cost_of, free_port, tool

# The same size as the answer of our own server to the same request.
_ACCEPTED = (
    '{"id":"evt_01k00000000000000000000000","type":"order.created","key":"customer:123",'
    '"lanes":[{"endpoint":"ep_01k00000000000000000000000","seq":42}],"created_at":"2026-03-01T12:00:00.000Z"}'
)


@dataclass(frozen=True, slots=True)
class Nginx:
    port: int
    pid: int
    log: Path

    @property
    def cost(self) -> Cost:
        return cost_of(self.pid)

    def flush(self) -> None:
        """Have the buffered lines written."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.2)


@contextmanager
def nginx(folder: Path, answer: str, *, log: bool = False) -> Iterator[Nginx]:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = folder / "deliveries.log"
    config = folder / "nginx.conf"
    logging = f"access_log {lines} delivery buffer=256k flush=1s;" if log else "access_log off;"
    config.write_text(
        f"""
        {"user root;" if os.geteuid() == 0 else ""}
        daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
        events {{ worker_connections 4096; }}
        http {{
            log_format delivery '$msec $http_x_key $http_x_seq $http_webhook_id';
            {logging} keepalive_requests 1000000000; keepalive_timeout 600s; client_body_temp_path {folder}/body;
            server {{
                listen 127.0.0.1:{port} backlog=4096;
                location / {{ {answer} }}
                location /dead {{ access_log off; return 503; }}
            }}
        }}
        """
    )
    server = subprocess.Popen([tool("nginx"), "-p", str(folder), "-c", str(config)])
    try:
        wait_for(port)
        yield Nginx(port, server.pid, lines)
    finally:
        server.terminate()
        server.wait(10)


@contextmanager
def limit_server(folder: Path) -> Iterator[Nginx]:
    """Answers a publish as we do, and does nothing else."""
    headers = "add_header x-content-type-options nosniff; add_header cache-control no-store;"
    answer = f"default_type application/json; {headers} return 202 '{_ACCEPTED}';"
    with nginx(folder, answer) as server:
        yield server


@contextmanager
def sink_server(folder: Path) -> Iterator[Nginx]:
    with nginx(folder, "return 200;", log=True) as server:
        yield server


def wait_for(port: int, whom: str = "nginx") -> None:
    """Until *whom* takes connections there."""
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{whom} on port {port} did not start within 5 s")
