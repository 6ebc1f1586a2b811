"""Runs mutants of one part, each in a fork of one pytest: `python -m tests.units.mutation.hunt judge core/judge.py:3`.

The tests are collected once. First they run as they are, once, to see which test runs which function and for how long;
then for each mutant a fork puts the changed code into the functions that exist already, and runs what runs
them, the quickest first, up to the first failure. One line of JSON for each: its number, and the test that noticed it.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FunctionType
from typing import Any

import hypothesis
import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT
from tests.units.mutation.mutator import Mutant, mutants, mutated, tables
from tests.units.mutation.parts import PARTS, SOURCE

TEST_S_MAX, TEST_CPU_S_MAX = 15.0, 3.0
"""A test that takes longer, and ten times as long as without the mutant, hangs, and has noticed it by that."""
TESTS_S_MAX = 8.0
"""The slowest tests of a function that very many tests run are left out."""
MEMORY_MAX = 4 << 30
_CACHE = type(cache(len))
SEEN = "_seen_by_the_hunt"
PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>: a fork ends with the hunt

Place = tuple[str, str]
"""A function: its file, and its name with the classes around it."""


def _functions_of(code: CodeType) -> Iterator[CodeType]:
    """All code of functions in that of a module; those inside of a function come with it."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if not inner.co_flags & 0x1:  # the body of a class
                yield from _functions_of(inner)
            else:
                yield inner
                yield from _functions_of(inner)


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname.partition(".<locals>")[0]


class Hunt:
    """The pytest plugin: instead of one run of all tests, one for each mutant."""

    def __init__(self, part: str, wanted: list[Mutant], tell: Callable[[dict[str, Any]], None]) -> None:
        self._files = {str(SOURCE / module) for module in PARTS[part].modules()}
        self._baseline = ROOT / f"build/mutants/{part.replace(' ', '-')}-{_version(_what_tests_use())}.json"
        self._wanted = wanted
        self._tell = tell
        self._red: Callable[[str], None] = lambda test: None
        self._took: dict[str, float] = {}

    # --- pytest asks ---

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed or not session.items:
            raise pytest.UsageError("the tests cannot be collected")
        runs = self._runs(session)
        if "red" in runs:
            self._tell(runs)
            return True
        gc.collect()
        self._live = Live(self._files)
        gc.freeze()  # forks share what nobody counts
        for mutant in self._wanted:
            began = time.monotonic()
            chosen = self._chosen(session.items, runs, mutant)
            by = self._noticed(session, mutant, chosen)
            took_s = round(time.monotonic() - began, 2)
            self._tell({"number": mutant.number, "by": by, "tests": len(chosen), "took_s": took_s})
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._red(report.nodeid)

    # --- the tests as they are ---

    def _runs(self, session: pytest.Session) -> dict[str, Any]:
        """For each test the places that it runs, and how long it takes. What is known of a file that stayed is kept."""
        known = json.loads(self._baseline.read_text()) if self._baseline.exists() else {}
        versions = {str(one.path): _version([one.path]) for one in session.items}
        runs = {test: seen for test, seen in known.items() if seen["version"] in versions.values()}
        new = [item for item in session.items if item.nodeid not in runs]
        if new:
            measured = _in_a_fork(partial(self._measure, session, new))
            if "runs" not in measured:
                return {"red": f"the tests ended early: {measured}"}
            for item in new:
                # One that is red as it is says nothing here; that it is, the suite says by itself.
                if item.nodeid in measured["runs"]:
                    runs[item.nodeid] = measured["runs"][item.nodeid] | {"version": versions[str(item.path)]}
            self._baseline.parent.mkdir(parents=True, exist_ok=True)
            self._baseline.write_text(json.dumps(runs))
        return runs

    def _measure(
        self, session: pytest.Session, items: list[pytest.Item], tell: Callable[[dict[str, Any]], None]
    ) -> None:
        red: set[str] = set()
        self._red = red.add
        runs: dict[str, Any] = {}
        seen = Live(self._files).watch()
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen.clear()
            began = time.process_time()  # of a busy machine the same
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.nodeid not in red:
                runs[item.nodeid] = {"took_s": time.process_time() - began, "places": sorted(seen.copy())}
        tell({"runs": runs})

    def _chosen(self, items: list[pytest.Item], runs: dict[str, Any], mutant: Mutant) -> list[pytest.Item]:
        """The tests that run what *mutant* changes (any of its module, where that is a table), the quickest first."""
        file = str(SOURCE / mutant.module)
        chosen, took_s = [], 0.0
        green = [item for item in items if item.nodeid in runs]
        for item in sorted(green, key=lambda one: float(runs[one.nodeid]["took_s"])):
            places = runs[item.nodeid]["places"]
            if [file, mutant.place] in places or (mutant.is_table and any(file == one for one, _ in places)):
                took_s += runs[item.nodeid]["took_s"]
                if took_s > TESTS_S_MAX and chosen:
                    break
                chosen.append(item)
                self._took[item.nodeid] = runs[item.nodeid]["took_s"]
        return chosen

    # --- the tests with a mutant ---

    def _noticed(self, session: pytest.Session, mutant: Mutant, items: list[pytest.Item]) -> str:
        """The first of *items* that is red with *mutant* and green without it, just then; or ""."""
        while items:
            seen = _in_a_fork(partial(self._run, session, mutant, items))
            assert "wrong" not in seen, f"{mutant.name}: {seen['wrong']}"
            if "ended" in seen:
                return "it hangs, or ends its process"
            red = [item for item in items if item.nodeid == seen.get("red")]
            if not red or not _in_a_fork(partial(self._run, session, None, red)):
                return str(seen.get("red", ""))
            items = [item for item in items if item not in red]
        return ""  # none runs it, or each that does is red by itself

    def _run(
        self,
        session: pytest.Session,
        mutant: Mutant | None,
        items: list[pytest.Item],
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        def red(test: str) -> None:
            tell({"red": test})
            os._exit(0)

        self._red = red
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        if mutant is not None:
            self._live.exchange(mutant)
        for item, following in zip(items, [*items[1:], None], strict=True):
            usual_s = 10 * self._took[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, max(TEST_CPU_S_MAX, usual_s))
            signal.setitimer(signal.ITIMER_REAL, scaled_s(max(TEST_S_MAX, usual_s)))
            try:
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException as error:  # what pytest itself does not stand
                red(f"{item.nodeid} ends with {type(error).__name__}")
        tell({})


class Live:
    """The functions of *files* as this process has imported them, and what remembers their answers."""

    def __init__(self, files: set[str]) -> None:
        every = gc.get_objects()
        self._functions = [one for one in every if type(one) is FunctionType and one.__code__.co_filename in files]
        self._caches = [one for one in every if type(one) is _CACHE]

    def watch(self) -> set[Place]:
        """Where a function runs from now on, its place is in the answer. A profiler would see every call of all."""
        seen: set[Place] = set()
        for file in {one.__code__.co_filename for one in self._functions}:
            tree = _Watched(file).visit(ast.parse(Path(file).read_text()))
            self._put(file, compile(ast.fix_missing_locations(tree), file, "exec"), "")
        for one in self._functions:
            one.__globals__[SEEN] = seen
        return seen

    def exchange(self, mutant: Mutant) -> None:
        """From now on what *mutant* changes is changed."""
        for one in self._caches:
            one.cache_clear()
        file = str(SOURCE / mutant.module)
        tree = mutated(mutant)
        if mutant.is_table:
            (value,) = [value for name, value in tables(tree) if name == mutant.place]
            _exchange_table(mutant, compile(ast.Expression(value), file, "eval"))
            return
        assert self._put(file, compile(tree, file, "exec"), mutant.place), "nothing was changed"

    def _put(self, file: str, module: CodeType, place: str) -> int:
        """Give the functions of *file* (at *place* only, where it is named) the code that they have in *module*."""
        codes = {(code.co_qualname, code.co_firstlineno): code for code in _functions_of(module)}
        found = 0
        for one in self._functions:
            code = codes.get((one.__code__.co_qualname, one.__code__.co_firstlineno))
            if code and one.__code__.co_filename == file and (not place or _place(code)[1] == place):
                one.__code__ = code
                found += 1
        return found


class _Watched(ast.NodeTransformer):
    """Functions that begin with a note that they run; those inside of others belong to them."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._around: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._around.append(node.name)
        self.generic_visit(node)
        self._around.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        place = (self._file, ".".join([*self._around, node.name]))
        node.body.insert(0, ast.parse(f"{SEEN}.add({place!r})").body[0])
        return node


def _exchange_table(mutant: Mutant, value: CodeType) -> None:
    """Put another table wherever the old one is known by a name of a module."""
    home = sys.modules["hooklane." + mutant.module.removesuffix(".py").replace("/", ".")]
    old, new = vars(home)[mutant.place], eval(value, vars(home))
    for module in list(sys.modules.values()):
        for name, known in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if known is old:
                setattr(module, name, new)


def _in_a_fork(work: Callable[[Callable[[dict[str, Any]], None]], None]) -> dict[str, Any]:
    """What *work* told, in a process of its own; {"ended": …} where it did not end well."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

        def tell(said: dict[str, Any]) -> None:
            data = json.dumps(said).encode()
            while data:
                data = data[os.write(writing, data) :]

        try:
            work(tell)
        except BaseException as error:  # pytest's own end as well
            tell({"wrong": repr(error)})
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read()
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started and could not end
    return dict(json.loads(said)) if said else {"ended": os.waitstatus_to_exitcode(status)}


def _version(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _what_tests_use() -> list[Path]:
    """The product, and what tests share."""
    shared = [file for file in (ROOT / "tests").rglob("*.py") if not file.name.startswith("test_")]
    return sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql"), *shared])


def main() -> None:
    part, *numbers = sys.argv[1:]
    named = [word.rpartition(":") for word in numbers]
    wanted = [mutants(module)[int(number)] for module, _, number in named]
    out = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    shows = bool(os.environ.get("HUNT_SHOWS"))  # what pytest and the tests say, on stderr
    os.dup2(2 if shows else nothing, 1)
    if not shows:
        os.dup2(nothing, 2)

    def tell(said: dict[str, Any]) -> None:
        print(json.dumps(said), file=out, flush=True)

    hypothesis.settings.register_profile(
        "mutants",
        deadline=None,
        derandomize=True,
        max_examples=50,
        database=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        report_multiple_bugs=False,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    options = ["-n", "0", "-m", "not soak", "-k", "not postgres", "--tb=line", "-o", "timeout=0", "-s"]
    options += ["-o", "faulthandler_timeout=0", "--hypothesis-profile=mutants"]
    off = [word for name in ("schemathesis", "playwright") for word in ("-p", f"no:{name}")]
    with TemporaryDirectory(prefix="mutants-") as files:
        options.append(f"--basetemp={files}/tests")  # of all forks, one after the other: each begins with an empty one
        pytest.main([*options, *off, *PARTS[part].tests], plugins=[Hunt(part, wanted, tell)])


if __name__ == "__main__":
    main()
