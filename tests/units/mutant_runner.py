"""Runs mutants of one module, each in a fork: `python -m tests.units.mutant_runner core/judge.py 3 14 15`.

pytest and the libraries are imported once; a fork then imports the mutant in place of its module, and its tests. One
word for each number: killed or survived. Only for tests that need no server.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import resource
import signal
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import hypothesis
import pytest
from tests.units.mutants import MODULES, MUTANT_S_MAX, PLAIN, Mutant, mutants, mutated

KILLED, SURVIVED = 1, 0


class Patched(Loader, MetaPathFinder):
    """Imports one module with another text."""

    def __init__(self, module: str, source: str) -> None:
        self.name = "hooklane." + module.removesuffix(".py").replace("/", ".")
        self._code = compile(source, module, "exec")

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def verdict(mutant: Mutant, suites: Sequence[str]) -> int:
    """In this process: whether a test fails with *mutant*."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(MUTANT_S_MAX), int(MUTANT_S_MAX) + 5))
    signal.signal(signal.SIGXCPU, lambda *_: os._exit(KILLED))
    patched = Patched(mutant.module, mutated(mutant))
    sys.meta_path.insert(0, patched)
    importlib.import_module(patched.name)  # now: pytest's own importer will stand before ours
    words = [word for suite in suites for word in suite.split(" ")]
    off = [word for name in ("schemathesis", "playwright") for word in ("-p", f"no:{name}")]
    options = ["-q", "-x", "-n", "0", "-m", "not soak", "--tb=no", "-o", "timeout=0", "-o", "faulthandler_timeout=0"]
    if not any("inbox" in word or "transport" in word for word in words):
        options += ["--noconftest", "-p", "no:hooklane"]  # the others need no fixture of ours
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = pytest.main([*options, *off, *words])
    return SURVIVED if code == pytest.ExitCode.OK else KILLED


def main() -> None:
    module, *numbers = sys.argv[1:]
    known = mutants(module)
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=50, database=None)
    hypothesis.settings.load_profile("mutants")
    for library in (
        "_hypothesis_pytestplugin",
        "xdist.plugin",
        "pytest_asyncio",
        "pytest_timeout",
        "msgspec",
        "cryptography.x509",
    ):
        importlib.import_module(library)  # once, and not in each fork
    for number in numbers:
        child = os.fork()
        if child == 0:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            os.dup2(devnull, 2)
            code = KILLED
            try:
                code = verdict(
                    known[int(number)] if number != PLAIN else Mutant(module, -1, 0, "nothing"), MODULES[module]
                )
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print("survived" if os.waitstatus_to_exitcode(status) == SURVIVED else "killed", flush=True)


if __name__ == "__main__":
    main()
