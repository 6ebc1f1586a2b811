"""The recorded soak of simulator, processes, hosts and disks: piece after piece, until the wanted totals are on record.

`python -m tests.faults.record --minutes 30` goes on where the last one stopped, with the next seed of each part, adds a
line of JSON per piece to record.jsonl, and stops at the first piece that is not clean. A piece is at most a few
minutes long. `--table` writes what is on record into docs/explain/proof.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.hosts import APART, why_no_hosts
from tests.support.tree import ROOT

from hooklane.core import breaker

RECORD = Path(__file__).with_name("record.jsonl")
PAGE = ROOT / "docs/explain/proof.md"
BEGIN, END = "<!-- the record begins -->", "<!-- the record ends -->"
ERROR = re.compile(r"^\W*([\w.]+(?:Error|Failed|Missing): .*)$", re.MULTILINE)
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of fault: how many are wanted, how many make a piece, and how a piece is run."""

    name: str
    says: str
    wanted: int
    piece: int
    module: str
    words: Callable[[int], Sequence[str]]
    needs_hosts: bool = False


def _fire(**faults: int) -> list[str]:
    return [word for kind, many in faults.items() if many for word in (f"--{kind.replace('_', '-')}", str(many))]


FIRE = "tests.faults.hosts.fire"
PARTS = (
    Part(
        "simulator",
        "crashes of workers in the simulator",
        100_000,
        5_000,
        "tests.faults.sim.at_size",
        lambda n: ["--crashes", str(n)],
    ),
    Part(
        "kills",
        "kill -9 of a server on SQLite",
        2_500,
        125,
        "tests.faults.crash.kill_loop",
        lambda n: ["--kills", str(n)],
    ),
    Part("kills-postgres", "kill -9 of a server or worker on PostgreSQL", 500, 50, FIRE, lambda n: _fire(kill=n), True),
    Part(
        *("power-sqlite", "power cuts on SQLite", 3_000, 300, "tests.faults.crash.power_cuts"),
        lambda n: ["--store", "sqlite", "--cuts", str(n)],
    ),
    Part(
        *("power-postgres", "power cuts on PostgreSQL", 200, 20, "tests.faults.crash.power_cuts"),
        lambda n: ["--store", "postgres", "--cuts", str(n)],
    ),
    Part(
        *("failovers", "failovers to a synchronous standby", 30, 5, FIRE),
        lambda n: _fire(failover=n),
        True,
    ),
    Part(
        *("frozen-failovers", "failovers after the standby was frozen", 10, 5, FIRE),
        lambda n: _fire(frozen_failover=n),
        True,
    ),
    Part("links", "faults of links between hosts", 200, 25, FIRE, lambda n: _fire(link=n), True),
    Part(
        *("hosts", "hosts frozen and cut off, clocks set, disks full", 64, 8, FIRE),
        lambda n: _fire(freeze=n // 4, isolate=n // 4, disk=n // 4, clock=n - 3 * (n // 4)),
        True,
    ),
    Part(
        *("operators", "failovers, kills and faults of links while operators act", 70, 7, FIRE),
        lambda n: [*_fire(failover=1, kill=2, link=n - 3), "--operated"],
        True,
    ),
    Part(
        *("pgbouncer", "the same behind PgBouncer, on PostgreSQL 15", 35, 7, FIRE),
        lambda n: [*_fire(failover=1, kill=2, link=n - 3), "--pooled", "--major", "15"],
        True,
    ),
)


def lines() -> list[Line]:
    return [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []


def done(part: Part, found: list[Line]) -> int:
    return sum(line["faults"] for line in found if line["part"] == part.name and line["clean"])


def run_piece(part: Part, faults: int, seed: int) -> Line:
    command = [sys.executable, "-m", part.module, "--seed", str(seed), *part.words(faults)]
    began = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        ran = subprocess.run(
            [*(APART if part.needs_hosts else ()), *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
            cwd=ROOT,
        )
        errors.seek(0)
        told = errors.read().decode(errors="replace")
    if ran.returncode == 0:
        said: Line = json.loads(ran.stdout.splitlines()[-1])
    else:
        print(told, file=sys.stderr)
        said = {"broken_off": (ERROR.findall(told) or ["it ended without a word"])[-1][:200]}
    clean = "broken_off" not in said and not any(
        (said["violations"], said["lost"], said.get("reordered"), said.get("unexplained"))
    )
    clean = clean and said.get("balanced", True) and said.get("integrity", "ok") == "ok"
    return {
        "part": part.name,
        "seed": seed,
        "faults": faults,
        "clean": clean,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(time.monotonic() - began, 1),
        "commit": _commit(),
        "compiled": not breaker.__file__.endswith(".py"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "events": said.get("events", 0),
        "lost": said.get("lost", 0),
        "reordered": said.get("reordered", 0),
        "copies": said.get("copies", 0),
        **({"promises": said["acknowledged"]} if "acknowledged" in said else {}),
        **({"back_s": said["back_s"]} if "back_s" in said else {}),
        **({"acts": said["acts"]} if said.get("acts") else {}),
        **{name: said[name] for name in ("violations", "broken_off") if said.get(name)},
    }


def _commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


def soak(minutes: float, only: Sequence[str]) -> None:
    ends_at = time.monotonic() + minutes * 60
    parts = [part for part in PARTS if not only or part.name in only]
    if why := why_no_hosts():
        print(f"left out: {', '.join(part.name for part in parts if part.needs_hosts)}: {why}", file=sys.stderr)
        parts = [part for part in parts if not part.needs_hosts]
    while time.monotonic() < ends_at:
        found = lines()
        # The part of which the least is done goes first, so that each half hour has some of everything.
        left = [part for part in parts if done(part, found) < part.wanted]
        if not left:
            print("all that is wanted is on record", file=sys.stderr)
            return
        part = min(left, key=lambda one: done(one, found) / one.wanted)
        seed = max((line["seed"] for line in found if line["part"] == part.name), default=0) + 1
        line = run_piece(part, min(part.piece, part.wanted - done(part, found)), seed)
        with RECORD.open("a") as record:
            record.write(json.dumps(line) + "\n")
        print(
            f"{part.name} seed {seed}: {line['faults']} in {line['took_s']} s, clean: {line['clean']}", file=sys.stderr
        )
        if not line["clean"]:
            sys.exit(f"not clean: {json.dumps(line, indent=1)}")


def table() -> str:
    """What is on record, as it stands in proof.md."""
    found = lines()
    rows = [
        "| faults | done | wanted | events | lost | reordered | copies | seeds | between |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for part in PARTS:
        mine = [line for line in found if line["part"] == part.name]
        if not mine:
            rows.append(f"| {part.says} | 0 | {part.wanted:,} | | | | | | |")
            continue
        sums = {name: sum(line[name] for line in mine) for name in ("events", "lost", "reordered", "copies")}
        days = sorted(line["at"][:16].replace("T", " ") for line in mine)
        seeds = sorted(line["seed"] for line in mine)
        rows.append(
            f"| {part.says} | {done(part, found):,} | {part.wanted:,} | {sums['events']:,} | {sums['lost']} |"
            f" {sums['reordered']} | {sums['copies']:,} | {seeds[0]} to {seeds[-1]} | {days[0]} and {days[-1]} |"
        )
    return "\n".join(rows)


def write_table() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.record", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--only", nargs="*", default=[], choices=[part.name for part in PARTS])
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        write_table()
    else:
        soak(asked.minutes, asked.only)


if __name__ == "__main__":
    main()
