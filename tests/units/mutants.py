"""How many small mistakes in the decisions would the unit tests notice? A seeded sample of mutants, each run in memory.

`python -m tests.units.mutants [--sample 320] [--seed 1] [--minutes 25] [--record FILE]` goes on where its record ends,
and prints what is killed and what survives. A mutant is one small change of one module: a comparison turned round
or off by one, a condition that always or never holds, `and` for `or`, another number, a statement that is left out.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.pace import scaled_s
from tests.support.tree import ROOT

RECORD = ROOT / "build/mutants.jsonl"
MUTANT_S_MAX = 60.0
"""A mutant whose tests take longer than this does not end, and is noticed by that."""

PLAIN = "-1"
"""The number of the module as it is, which must survive."""

_CORE = "tests/units/core"
_VERIFY = "tests/units/verify"
MODULES: dict[str, tuple[str, ...]] = {
    # the guard
    "sender/egress.py": ("tests/units/egress/test_egress_urls.py", "tests/units/transport/test_transport_egress.py"),
    "sender/addresses.py": ("tests/units/egress/test_egress_addresses.py", "tests/units/egress/test_egress_urls.py"),
    # the verifier
    "core/verify/check.py": (f"{_VERIFY}/test_attacks.py", f"{_VERIFY}/test_vectors.py", f"{_VERIFY}/test_keyring.py"),
    "core/verify/standard.py": (f"{_VERIFY}/test_standard.py", f"{_VERIFY}/test_attacks.py"),
    "core/verify/reading.py": (
        f"{_VERIFY}/test_standard.py",
        f"{_VERIFY}/test_attacks.py",
        f"{_VERIFY}/test_vectors.py",
    ),
    # the claim
    "store/memory/inbox/claims.py": ("tests/stores/inbox/test_inbox_conformance.py -k memory",),
    "core/admission/turns.py": (f"{_CORE}/test_admission.py",),
    "core/admission/copies.py": (f"{_CORE}/test_admission.py",),
    "core/admission/retention.py": (f"{_CORE}/test_admission.py",),
    "core/admission/failures.py": (f"{_CORE}/test_admission.py",),
    # the lane machine and the engine
    "core/machine.py": (f"{_CORE}/test_lane_machine.py",),
    "core/engine/outcomes.py": (
        f"{_CORE}/test_engine_order.py",
        f"{_CORE}/test_engine_news.py",
        f"{_CORE}/test_engine_suspects.py",
    ),
    "core/engine/heads.py": (
        f"{_CORE}/test_engine_order.py",
        f"{_CORE}/test_engine_limits.py",
        f"{_CORE}/test_engine_suspects.py",
    ),
    "store/memory/outbox/settling.py": ("tests/stores/outbox/test_memory.py",),
    "store/memory/outbox/owning.py": ("tests/stores/outbox/test_memory.py",),
    # the worker
    "core/worker/ownership.py": (f"{_CORE}/test_worker_ownership.py", f"{_CORE}/test_worker_writing.py"),
    "core/worker/news.py": (f"{_CORE}/test_worker_news.py", f"{_CORE}/test_worker_ownership.py"),
    "core/worker/writing.py": (f"{_CORE}/test_worker_writing.py", f"{_CORE}/test_worker_ownership.py"),
    "core/worker/sending.py": (f"{_CORE}/test_worker_writing.py",),
    # the judge
    "core/judge.py": (f"{_CORE}/test_judge.py", "tests/promises/sending/test_answers.py"),
}


_HINTS = "return HINT_MS_MAX if len(text) > 12 else int(text) * 1000"
SURVIVORS: dict[str, str] = {
    "core/judge.py: base = min(self.backoff_cap_ms, self.backoff_ms << min(attempt - 1, 40)) (40 becomes 41)": (
        "a bound that keeps numbers small; the cap rules long before"
    ),
    f"core/judge.py: {_HINTS} (12 becomes 13)": "so many seconds are beyond the bound of a hint either way",
    f"core/judge.py: {_HINTS} (Gt becomes GtE)": "the same",
}
"""Mutants that no test kills, and why that is right."""


class Mutant(NamedTuple):
    """The change number *number* of *module*: at *line*, *what*."""

    module: str
    number: int
    line: int
    what: str

    @property
    def name(self) -> str:
        """By the text of its line, since numbers of lines change."""
        text = _source(self.module).read_text().splitlines()[self.line - 1].strip()
        return f"{self.module}: {text} ({self.what})"


_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv}


class _Mutator(ast.NodeTransformer):
    """Counts the places for a change, and makes the one whose number is *wanted*."""

    def __init__(self, wanted: int = -1) -> None:
        self.places: list[tuple[int, str]] = []
        self._wanted = wanted
        self._depth = 0

    def _here(self, node: ast.AST, what: str) -> bool:
        if not self._depth:
            return False
        self.places.append((getattr(node, "lineno", 0), what))
        return len(self.places) - 1 == self._wanted

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Only what is inside of functions: what stands outside are tables and limits, not decisions."""
        self._depth += 1
        node.body = [self.visit(one) for one in node.body]
        self._depth -= 1
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self._depth += 1
        node.body = [self.visit(one) for one in node.body]
        self._depth -= 1
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for place, operator in enumerate(node.ops):
            turned = _TURNED.get(type(operator))
            if turned and self._here(node, f"{type(operator).__name__} becomes {turned.__name__}"):
                node.ops[place] = turned()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._here(node, "and becomes or" if isinstance(node.op, ast.And) else "or becomes and"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._here(node, "not is left out"):
            return node.operand
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = _OTHER.get(type(node.op))
        if other and self._here(node, f"{type(node.op).__name__} becomes {other.__name__}"):
            node.op = other()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._here(node, f"{value} becomes {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int) and self._here(node, f"{value} becomes {value + 1}"):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        for always in (True, False):
            if self._here(node, f"if {'always' if always else 'never'}"):
                node.test = ast.copy_location(ast.Constant(always), node.test)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and self._here(node, "a call is left out"):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node  # it states what must be true; nothing follows from it


def _source(module: str) -> Path:
    return ROOT / "src/hooklane" / module


def mutants(module: str) -> list[Mutant]:
    """Every change that can be made to *module*."""
    mutator = _Mutator()
    mutator.visit(ast.parse(_source(module).read_text()))
    return [Mutant(module, number, line, what) for number, (line, what) in enumerate(mutator.places)]


def mutated(mutant: Mutant) -> str:
    tree = copy.deepcopy(ast.parse(_source(mutant.module).read_text()))
    changed = _Mutator(mutant.number).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed))


def sample(many: int, seed: int) -> list[Mutant]:
    """As many of each module as its part of all, in an order by chance."""
    every = [one for module in MODULES for one in mutants(module)]
    return random.Random(seed).sample(every, min(many, len(every)))


# --- running them: one process for each module, a fork of it for each mutant ---


def run(wanted: list[Mutant], s_max: float) -> Iterator[tuple[Mutant, bool]]:
    """Whether each mutant is killed; they must be of one module."""
    command = [sys.executable, "-m", "tests.units.mutant_runner", wanted[0].module]
    command += [PLAIN, *(str(one.number) for one in wanted)]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "survived\n", f"the tests of {wanted[0].module} fail without any mutant"
        for mutant, line in zip(wanted, runner.stdout, strict=False):
            yield mutant, line.strip() == "killed"
            if time.monotonic() - began > s_max:
                runner.terminate()
                return


def report(record: Path) -> tuple[Counter[str], list[str]]:
    """How many were tried and killed, and the names of the survivors."""
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return Counter("killed" if one["killed"] else "survived" for one in lines), [
        one["name"] for one in lines if not one["killed"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    ends_at = time.monotonic() + asked.minutes * 60
    asked.record.parent.mkdir(parents=True, exist_ok=True)
    done = (
        {json.loads(line)["name"] for line in asked.record.read_text().splitlines()} if asked.record.exists() else set()
    )
    left = [one for one in sample(asked.sample, asked.seed) if one.name not in done]
    for module in MODULES:
        some = [one for one in left if one.module == module]
        if not some or time.monotonic() >= ends_at:
            continue
        for mutant, killed in run(some, scaled_s(max(1.0, ends_at - time.monotonic()))):
            with asked.record.open("a") as record:
                record.write(json.dumps({"name": mutant.name, "number": mutant.number, "killed": killed}) + "\n")
    counts, survivors = report(asked.record)
    print(f"{counts.total()} mutants, {counts['killed']} killed ({counts['killed'] / max(1, counts.total()):.0%})")
    for name in survivors:
        print(f"  survived: {name}")


if __name__ == "__main__":
    main()
