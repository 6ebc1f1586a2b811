"""Which hooklane is measured? What ships in compiled wheels, or the plain source."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tools import compiled

COMPILED, INTERPRETED = "compiled", "interpreted"
_chosen: list[str] = []


def choose(*, interpreted: bool = False) -> str:
    """Have every process that is started from here on run the compiled tree, where there is one that is up to date."""
    tree = None if interpreted else compiled.tree()
    if tree is None:
        if not interpreted:
            print("build/compiled is missing or older than src/: measuring the plain source", file=sys.stderr)
        tree = compiled.SOURCE
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), *([before] if before else [])])
    _chosen.append(INTERPRETED if tree == compiled.SOURCE else COMPILED)
    return _chosen[-1]


def check(pid: int) -> None:
    """SystemExit where a server runs something else than what was chosen: its figures would bear the wrong name."""
    runs = COMPILED if "hooklane__mypyc" in Path(f"/proc/{pid}/maps").read_text() else INTERPRETED
    if _chosen and runs != _chosen[-1]:
        raise SystemExit(f"the server runs {runs}, not {_chosen[-1]} as was asked")
