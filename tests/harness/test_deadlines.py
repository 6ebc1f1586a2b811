"""Deadlines of tests are read through `scaled_s` (tests/support/pace.py): a slow machine is slow, and not red."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SHORT_S = 1
"""What is shorter is meant to pass: "nothing comes within 300 ms"."""
OTHER_CLOCKS = ("webhooks", "locator", "expect")
"""The test kit's own clock, and the browser, which counts in milliseconds."""


def deadlines(source: str) -> Iterator[int]:
    """The lines of *source* where something is waited for within a number of seconds that does not grow."""
    tree = ast.parse(source)
    named = {
        target.id: each.value
        for each in tree.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and not any(word in ast.unparse(call.func) for word in OTHER_CLOCKS):
            for limit in _limits(call):
                value = named.get(limit.id) if isinstance(limit, ast.Name) else limit
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= SHORT_S:
                    yield limit.lineno


def _limits(call: ast.Call) -> Iterator[ast.expr]:
    whole = ast.unparse(call.func)
    verb = whole.rpartition(".")[2]
    if verb != "connect":  # of a database: how long it may wait for a lock is what the test is about
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "timeout")
    if whole == "asyncio.timeout" or ("." in whole and verb in ("wait", "join", "result", "settimeout")):
        yield from call.args[:1]
    if whole == "asyncio.wait_for":
        yield from call.args[1:2]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("done.wait(20)", 1),
        ("asyncio.wait_for(done.wait(), 20)", 1),
        ("subprocess.run(words, timeout=60)", 1),
        ("reply.result(timeout=20)", 1),
        ("async def f():\n    async with asyncio.timeout(5): pass", 1),
        ("WITHIN_S = 30\nasync def f():\n    async with asyncio.timeout(WITHIN_S): pass", 1),
        ("WITHIN_S = 30\ndone.wait(scaled_s(WITHIN_S))", 0),
        ("done.wait(scaled_s(20))", 0),
        ("asyncio.wait([task], timeout=0.15)", 0),
        ("','.join(words)", 0),
    ],
)
def test_a_deadline_that_does_not_grow_is_seen(source: str, found: int) -> None:
    assert len(list(deadlines(source))) == found


def test_every_deadline_grows_with_a_slow_machine() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if "django_project" not in path.parts  # a project of its own, which cannot import ours
        for line in deadlines(path.read_text())
    ]
    assert found == [], "use scaled_s(…) of tests/support/pace.py"
