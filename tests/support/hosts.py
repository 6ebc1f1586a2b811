"""Hosts on one machine: network namespaces, with a wire between them that can be cut, delayed, made lossy and narrow.

Needs root on Linux. `run_apart` starts a module in namespaces of its own (network, mounts, pids); there a `Network`
makes the hosts. All of it is anonymous: when the processes have ended, nothing is left on the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import Child, until
from tests.support.wire import TUN

APART = ("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""With pids of its own as well: when the first process ends, however it ends, the kernel ends all that it started."""
CLONE_NEWNET, CLONE_NEWUTS = 0x40000000, 0x04000000


@cache
def why_no_hosts() -> str | None:
    """One line that says what is missing here for hosts of one's own; None where nothing is."""
    if sys.platform != "linux":
        return "hosts are network namespaces: they need Linux"
    if os.geteuid() != 0:
        return "hosts are network namespaces: they need root"
    if missing := [program for program in ("ip", "unshare", "nsenter") if shutil.which(program) is None]:
        return f"hosts are network namespaces: {', '.join(missing)} is not installed"
    if not TUN.exists():
        return f"hosts are network namespaces with tun devices: there is no {TUN}"
    tried = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    return (
        f"hosts are network namespaces, which are not allowed here: {tried.stderr.strip()}"
        if tried.returncode
        else None
    )


def enter(name: str, namespace: str) -> None:
    """This thread, and what it starts, is from now on at that host, whose network is a path of /proc; root only.

    The host name is another too: workers of one host name know each other's processes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0 or libc.unshare(CLONE_NEWUTS) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {name}")
    finally:
        os.close(descriptor)
    socket.sethostname(name)


class Host:
    """A place with addresses of its own; `enter` put before a command runs it there."""

    def __init__(self, name: str, address: str, pid: int) -> None:
        self.name = name
        self.address = address
        self.namespace = f"/proc/{pid}/ns/net"
        self.enter = ("nsenter", f"--net={self.namespace}")

    def __repr__(self) -> str:
        return self.name


class Network:
    """Hosts by name, and the links between them. *here* are names for this very process, each with its own address."""

    def __init__(self, folder: Path, *, here: Iterable[str], there: Iterable[str]) -> None:
        self._stack = ExitStack()
        self._addresses: dict[int, list[str]] = {}
        self.hosts: dict[str, Host] = {}
        ours = Path("/proc/self/ns/net").readlink()
        for name in here:
            self._add(name, os.getpid())
        for name in there:
            holder = Child(["unshare", "--net", "sleep", "infinity"], log=folder / f"{name}.namespace")
            self._stack.enter_context(holder)
            theirs = Path(f"/proc/{holder.pid}/ns/net")
            holder.wait_until(lambda at=theirs: at.readlink() != ours, what="a network namespace")
            self._add(name, holder.pid)
        words = [f"{pid}={','.join(addresses)}" for pid, addresses in self._addresses.items()]
        self._wire = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.wire", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self._expect("ready")

    def _add(self, name: str, pid: int) -> None:
        address = f"10.77.0.{len(self.hosts) + 1}"
        self.hosts[name] = Host(name, address, pid)
        self._addresses.setdefault(pid, []).append(address)

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    # --- links ---

    def link(self, here: str, there: str, *, one_way: bool = False, **fault: float | bool) -> None:
        """From now on packets from *here* to *there*, and back unless *one_way*, suffer that fault: see wire.Link."""
        self._set({"from": [self[here].address], "to": [self[there].address], **fault})
        if not one_way:
            self._set({"from": [self[there].address], "to": [self[here].address], **fault})

    def heal(self, here: str, there: str) -> None:
        self.link(here, there)

    def isolate(self, name: str) -> None:
        """No packet leaves or reaches that host."""
        self._all(name, {"cut": True})

    def join(self, name: str) -> None:
        self._all(name, {})

    def _all(self, name: str, fault: Mapping[str, bool]) -> None:
        me, others = [self[name].address], [host.address for host in self.hosts.values() if host.name != name]
        self._set({"from": me, "to": others, **fault})
        self._set({"from": others, "to": me, **fault})

    def _set(self, wanted: Mapping[str, object]) -> None:
        assert self._wire.stdin is not None
        self._wire.stdin.write(json.dumps(wanted) + "\n")
        self._wire.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self._wire.stdout is not None
        said = self._wire.stdout.readline().strip()
        assert said == word, f"the wire said {said!r} instead of {word!r}"

    def close(self) -> None:
        assert self._wire.stdin is not None
        self._wire.stdin.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self.close()


def run_apart(module: str, *words: str, log: Path, within_s: float) -> Mapping[str, object]:
    """Run *module* in namespaces of its own; what it prints as its last line, which is JSON."""
    with Child([*APART, sys.executable, "-m", module, *words], log=log) as child:
        code = until(lambda: (child.returncode is not None) or None, what=f"{module} to end", within_s=within_s)
        assert code
        said = child.output()
    assert child.returncode == 0, said[-6_000:]
    found: dict[str, object] = json.loads(said.splitlines()[-1])
    return found
