"""What does this machine have, and what did a process cost it?"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PROGRAMS = ("wrk", "nginx")


def tool(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    assert path is not None, f"{name} is missing: `require_tools` comes first"
    return path


def require_tools() -> None:
    """wrk and nginx: installed when we may, else asked for in one line."""
    missing = [name for name in PROGRAMS if not (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))]
    if not missing:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {' and '.join(missing)}", file=sys.stderr)
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *missing]):
            subprocess.run(
                command, check=False, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            )
        missing = [name for name in missing if not (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))]
    if missing:
        sys.exit(f"the benchmarks need {' and '.join(missing)}: apt-get install {' '.join(missing)}")


def described() -> str:
    """The machine in a few words."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"Linux {platform.release().split('-')[0]}, CPython {platform.python_version()}"
    return f"{len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB, {system}"


def load_average() -> float:
    return os.getloadavg()[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on a real disk, where fsync costs what it costs; BENCH_DIR says where, else the current folder."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=os.environ.get("BENCH_DIR", ".")) as folder:
        yield Path(folder).absolute()


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of processes since they began."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.user_s - other.user_s, self.system_s - other.system_s)


def cost_of(*pids: int) -> Cost:
    """What *pids* and the children that they have now have cost so far."""
    user = system = 0
    for pid in {one for root in pids for one in (root, *children(root))}:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        user, system = user + int(fields[11]), system + int(fields[12])
    return Cost(user * TICK_S, system * TICK_S)


def children(pid: int) -> list[int]:
    try:
        # By thread: a child belongs to the one that started it.
        mine = [
            int(word)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for word in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [*mine, *(deeper for child in mine for deeper in children(child))]


class Neighbours:
    """How many cores others kept busy since the start of this watch, beside processes that are our own."""

    def __init__(self, *own: int) -> None:
        self._own = own
        self._busy_s = _busy_s()
        self._cost_s = cost_of(*own).total_s
        self._at = time.perf_counter()

    def cores(self, own_s: float = 0.0) -> float:
        """*own_s* is CPU time of our own that has ended meanwhile."""
        took = time.perf_counter() - self._at
        ours = cost_of(*self._own).total_s - self._cost_s + own_s
        return max(0.0, (_busy_s() - self._busy_s - ours) / took)


def _busy_s() -> float:
    with Path("/proc/stat").open() as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_S


def wait_for_quiet(within_s: float, cores_max: float = 0.2) -> None:
    """Until others leave the machine alone for half a second, or *within_s* have passed."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        watch = Neighbours()
        time.sleep(0.5)
        if watch.cores() <= cores_max:
            return


def rss_kib(pid: int) -> int:
    """How much memory a process has at this moment."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


def rss_mb(pid: int) -> float:
    """Of a process and its children at this moment."""
    return sum(rss_kib(one) for one in (pid, *children(pid))) / 1024


def peak_rss_mb(pid: int) -> float:
    """Of a process and its children, each at its own peak."""
    return sum(_peak_rss_mb(one) for one in (pid, *children(pid)))


def _peak_rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM in the status of a process")
