"""Numbers of errors: each has one, none changes its meaning, and none vanishes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from hooklane import errors
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.main import run
from hooklane.error_numbers import NUMBERS, SAME, number_named, number_of
from hooklane.errors import InvalidEvent, MissingExtra, StoreBusy
from hooklane.sender.egress import UrlNotAllowed
from hooklane.server.problem import CODES, Problem, problem_of

KEPT = [tuple(line.split()) for line in Path(__file__).with_name("numbers.txt").read_text("utf-8").splitlines()]
"""Every number that was ever given, with its name. Lines are added here, and never changed or removed."""

EXCEPTIONS = [name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)]


def test_a_number_that_was_given_keeps_its_meaning_for_ever():
    given = {(number_named(name), name) for name in (*NUMBERS, *SAME)}

    assert sorted(set(KEPT) - given) == [], "a number has another meaning, or is gone"
    assert sorted(given - set(KEPT)) == [], "add these to numbers.txt"


def test_no_two_errors_share_a_number():
    numbers = [number for number, _ in NUMBERS.values()]

    assert len(set(numbers)) == len(numbers)
    assert set(SAME.values()) <= set(NUMBERS)
    assert not set(SAME) & set(NUMBERS)


@pytest.mark.parametrize("name", [*CODES, *EXCEPTIONS, *(code.name for code in Exit if code)])
def test_every_problem_exception_and_exit_has_a_number_and_a_remedy(name: str):
    number, remedy = NUMBERS[SAME.get(name, name)]

    assert number.startswith("HL")
    assert remedy.endswith(".")


def test_an_error_has_the_number_of_its_code_else_of_its_exit_else_of_its_class():
    assert number_of(InvalidEvent("too_deep", "…")) == number_named("too_deep")
    assert number_of(CallFailed("…", Exit.NOT_FOUND, "not_found")) == number_named("not_found")
    assert number_of(CallFailed("…", Exit.NOT_FOUND)) == number_named("NOT_FOUND")
    assert number_of(MissingExtra("psycopg", "postgres")) == number_named("MissingExtra")
    assert number_of(UrlNotAllowed("…")) == number_named("url_not_allowed")
    assert number_of(RuntimeError("…")) == number_named("FAILED")


def test_a_problem_of_the_api_has_the_number_of_the_exception_behind_it():
    assert json.loads(problem_of(StoreBusy("…")).body())["number"] == number_of(StoreBusy("…"))
    assert json.loads(Problem("not_found").body())["number"] == "HL110"


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["lanes", "lss"], "HL002"),
        (["lanes", "ls", "--server", ""], "HL002"),
        (["lanes", "ls", "--server", "http://127.0.0.1:1"], "HL005"),
        (["lanes", "ls", "--db", "sqlite:///nowhere/at.all"], "HL029"),
        (["serve", "--db", "mysql://here"], "HL012"),
    ],
)
def test_a_command_that_fails_prints_its_number_first(
    words: list[str], number: str, capsys: pytest.CaptureFixture[str]
):
    assert run(words) != 0

    last = capsys.readouterr().err.rstrip().splitlines()[-1]
    assert last.startswith((f"hooklane: {number} ", f"Error: {number} "))
