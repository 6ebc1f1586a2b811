"""How many small mistakes in the decisions would the tests notice? Runs a seeded sample of mutants and keeps a record.

`python -m tests.units.mutation.record [part…] [--each 60] [--seed 1] [--minutes 9]` goes on where the record ends, and
prints the table of docs/explain/proof.md and the survivors that survivors.toml does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.tree import ROOT
from tests.units.mutation.mutator import Mutant, mutants_of, sample
from tests.units.mutation.parts import PARTS

RECORD = ROOT / "build/mutants/record.jsonl"
SEED = 1
EACH = 60
"""So many of each part."""
SURVIVORS: dict[str, str] = {
    name: why
    for why, names in tomllib.loads(Path(__file__).with_name("survivors.toml").read_text()).items()
    for name in names
}
"""Mutants that no test kills, and why that is right."""


class Verdict(NamedTuple):
    """*by*: the test that noticed the mutant, or "" where none did. *tests*: how many run what it changes."""

    by: str
    tests: int
    took_s: float


def run(part: str, wanted: Iterable[Mutant], s_max: float) -> Iterator[tuple[Mutant, Verdict]]:
    """Which test notices each of *wanted*, which are of *part*; after *s_max* seconds no other is begun."""
    wanted = list(wanted)
    command = [sys.executable, "-m", "tests.units.mutation.hunt", part]
    command += [f"{one.module}:{one.number}" for one in wanted]
    ends_at = time.monotonic() + s_max
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as hunt:
        assert hunt.stdout is not None
        for mutant in wanted:
            line = hunt.stdout.readline()
            assert line, f"the hunt for {mutant.name} ended"
            said = json.loads(line)
            assert "number" in said, said
            assert said["number"] == mutant.number
            yield mutant, Verdict(said["by"], said["tests"], said["took_s"])
            if time.monotonic() > ends_at:
                hunt.terminate()
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", default=[], choices=[*PARTS, []])
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--survivors", action="store_true", help="run those again that survived")
    asked = parser.parse_args()
    ends_at = time.monotonic() + asked.minutes * 60
    asked.record.parent.mkdir(parents=True, exist_ok=True)
    known = _read(asked.record)
    rows: list[str] = []
    unexplained: list[str] = []
    for part in PARTS:
        wanted = sample(part, asked.each, asked.seed)
        if not asked.part or part in asked.part:
            left = [one for one in wanted if one.name not in known or (asked.survivors and not known[one.name])]
            if left and time.monotonic() < ends_at:
                for mutant, verdict in run(part, left, max(1.0, ends_at - time.monotonic())):
                    known[mutant.name] = verdict.by
                    line = {"name": mutant.name, "line": mutant.line} | verdict._asdict()
                    with asked.record.open("a") as record:
                        record.write(json.dumps(line) + "\n")
        tried = [one.name for one in wanted if one.name in known]
        survived = [name for name in tried if not known[name]]
        explained = [name for name in survived if name in SURVIVORS]
        unexplained += [name for name in survived if name not in SURVIVORS]
        of = len(mutants_of(part))
        rows.append(f"| {part} | {of} | {len(tried)} | {len(tried) - len(survived)} | {len(explained)} |")
    print("\n".join(rows))
    print("\n".join(f"survived: {name}" for name in unexplained))


def _read(record: Path) -> dict[str, str]:
    """By name the test that noticed it, last time."""
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return {one["name"]: one["by"] for one in lines}


if __name__ == "__main__":
    main()
