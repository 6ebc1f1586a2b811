"""The map: every file, class, test and decision that pages for newcomers name is there, and links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.support.tree import ROOT

from hooklane.core.machine import NEXT
from hooklane.model.message import Status

SOURCE = ROOT / "src" / "hooklane"
DOCS = ROOT / "docs"
ADRS = DOCS / "adr"
MAP = [
    ROOT / "ARCHITECTURE.md",
    DOCS / "glossary.md",
    *[DOCS / "explain" / f"{name}.md" for name in ("life-of-an-event", "life-of-a-message", "states", "promises")],
]
WRITTEN_WITH_THE_MAP = [page for page in sorted(ADRS.glob("006[1-9]*.md")) if page.name[:4] >= "0061"]
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")})
PAGES = [page for page in PAGES if "node_modules" not in page.parts]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- what a page says ---


def without_blocks(text: str) -> str:
    """*text* without its fenced blocks, in which brackets and names are those of a program."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def spans(text: str) -> list[str]:
    """What is set as code in running text."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def table_rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, without heads and rules."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_head = number + 1 < len(lines) and lines[number + 1].startswith("|---")
        if line.startswith("| ") and not is_head:
            yield [cell.strip() for cell in line.strip("| ").split(" | ")]


def files_in(text: str) -> list[str]:
    """Names of files and folders of the source: in running text as code, in pictures as they are.

    A row of a table that begins with a folder names files below it.
    """
    told: list[str] = []
    for line in without_blocks(text).splitlines():
        below = re.match(r"\| `(\w+/)` \| ", line)
        folder = below[1] if below else ""
        named = [span for span in spans(line[below.end() :] if below else line) if _FILE.fullmatch(span)]
        told += [folder + name if folder and not is_file(name) else name for name in named if below or "/" in name]
    for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        told += re.findall(r"[\w/]+\.py|docs/[\w/-]+\.md", block)
    return told


_FILE = re.compile(r"[\w./-]+(\.(py|sql|lua|md)|/)")


def is_file(name: str) -> bool:
    return (ROOT / name).exists() or (SOURCE / name).exists() or (SOURCE / "store" / "redis" / name).exists()


# --- what the code has ---


@cache
def names_defined_in(module: Path) -> frozenset[str]:
    """Classes, functions and values at the top of *module*, and the members of its classes as `Class.member`."""
    found: set[str] = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        match node:
            case ast.ClassDef(name=name, body=body):
                found.add(name)
                found.update(f"{name}.{member}" for part in body for member in _bound_by(part))
            case _:
                found.update(_bound_by(node))
    return frozenset(found)


def _bound_by(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


@cache
def all_names() -> frozenset[str]:
    return frozenset[str]().union(*[names_defined_in(module) for module in SOURCE.rglob("*.py")])


@cache
def modules_with_tests() -> dict[Path, frozenset[str]]:
    """Every module that holds tests, with the names of its tests and their classes."""
    modules = [*(ROOT / "tests").rglob("test_*.py"), *(SOURCE / "testing").glob("conformance_*/*.py")]
    return {
        module: frozenset(name.rpartition(".")[2] for name in names_defined_in(module) if "est" in name)
        for module in modules
    }


def is_test(reference: str) -> bool:
    """Whether exactly one module ends in what stands before `::`, and has the test that stands behind it."""
    file, _, test = reference.partition("::")
    homes = [names for module, names in modules_with_tests().items() if f"/{module.as_posix()}".endswith(f"/{file}")]
    return len(homes) == 1 and test in homes[0]


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of *page* have on GitHub, and those that it sets itself."""
    text = without_blocks(page.read_text("utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads} | set(
        re.findall(r'<a id="([^"]+)">', text)
    )


def dead_links(page: Path, text: str) -> list[str]:
    """Links of *text*, as it stands on *page*, that lead to no file or to no heading."""
    dead = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", without_blocks(text)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    return dead


# --- the promises of the map ---


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page):
    assert dead_links(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", [*MAP, *WRITTEN_WITH_THE_MAP], ids=name_of)
def test_every_file_that_a_page_names_is_there(page):
    assert [name for name in files_in(page.read_text("utf-8")) if not is_file(name)] == []


@pytest.mark.parametrize("page", MAP, ids=name_of)
def test_every_class_that_a_page_names_is_there(page):
    found = [re.fullmatch(r"([A-Z][a-z]\w+(?:\.\w+)?)(\(.*\))?", span) for span in spans(page.read_text("utf-8"))]

    assert [one[1] for one in found if one is not None and one[1] not in all_names()] == []


@pytest.mark.parametrize("page", [*MAP, *WRITTEN_WITH_THE_MAP], ids=name_of)
def test_every_decision_that_a_page_names_is_there(page):
    numbers = re.findall(r"\bADR (\d{4})|\[(\d{4})\]", page.read_text("utf-8"))

    assert [number for one, other in numbers if not list(ADRS.glob(f"{(number := one or other)}-*.md"))] == []


def test_every_word_of_the_glossary_has_its_type_in_its_file():
    rows = list(table_rows((DOCS / "glossary.md").read_text("utf-8")))

    assert 40 <= len(rows) <= 70
    for word, meaning, type_, file in rows:
        assert meaning, word
        assert type_.strip("`") in names_defined_in(SOURCE / file.strip("`")), word


def test_a_word_is_in_the_glossary_once():
    words = [row[0] for row in table_rows((DOCS / "glossary.md").read_text("utf-8"))]

    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize("life", ["life-of-an-event", "life-of-a-message"])
def test_a_life_has_at_most_ten_stages_of_one_file_each_and_the_picture_has_the_same(life):
    stages = [row for row in table_rows((DOCS / "explain" / f"{life}.md").read_text("utf-8")) if row[0].isdigit()]
    picture = (ROOT / "ARCHITECTURE.md").read_text("utf-8")

    assert [str(number) for number in range(1, len(stages) + 1)] == [row[0] for row in stages]
    assert len(stages) <= 10
    for number, _, file, after, if_it_dies in stages:
        assert re.fullmatch(r"`[\w/]+\.py`", file), file
        assert f"{number} {file.strip('`')}" in picture
        assert after
        assert if_it_dies


def test_the_picture_of_a_lane_has_the_moves_of_the_machine():
    words = {state.value for state, _ in NEXT}
    rows = [row for row in table_rows((DOCS / "explain" / "states.md").read_text("utf-8")) if row[0] in words]
    lanes = [row for row in rows if row[1] in {move.value for _, move in NEXT}]

    assert {(old.value, move.value): new.value for (old, move), new in NEXT.items()} == {
        (row[0], row[1]): row[2] for row in lanes
    }


def test_the_states_of_a_handling_are_those_of_the_code():
    text = (DOCS / "explain" / "states.md").read_text("utf-8").partition("## A handling")[2]
    told = {word for row in table_rows(text) for cell in (row[0], row[2]) for word in cell.split(", ")}
    rows_own = set(re.findall(r"\*\*(\w+)\*\*", text))

    assert {status.value for status in Status} == (told - {"(new)"}) | rows_own


def test_every_promise_has_tests_that_are_there_and_says_what_the_user_does():
    rows = list(table_rows((DOCS / "explain" / "promises.md").read_text("utf-8")))

    assert {f"R{n}" for n in range(1, 26)} | {f"S{n}" for n in range(1, 15)} == {row[0] for row in rows}
    for number, promise, tests, part in rows:
        assert promise, number
        assert part, number
        assert spans(tests), number


def test_every_test_that_a_page_names_is_there():
    named = [span for page in MAP for span in spans(page.read_text("utf-8")) if re.search(r"\.py::", span)]

    assert len(named) > 60
    assert [reference for reference in named if not is_test(reference)] == []


def test_every_decision_is_in_the_index_once_under_its_own_number():
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+?)\) \|", (ADRS / "README.md").read_text("utf-8"), re.MULTILINE)

    assert sorted(page.name for page in ADRS.glob("0*.md")) == sorted(file for _, file in listed)
    assert [file for number, file in listed if not file.startswith(number)] == []
    assert [
        page.name for page in ADRS.glob("0*.md") if not page.read_text("utf-8").startswith(f"# {page.name[:4]} ")
    ] == []


def test_what_is_not_there_is_found():
    page = DOCS / "glossary.md"

    assert dead_links(page, "[a](explain/nowhere.md) [b](#no-such-head) [c](#sender)") == [
        "explain/nowhere.md",
        "#no-such-head",
    ]
    assert [name for name in files_in("`core/judge.py` `core/nowhere.py`") if not is_file(name)] == ["core/nowhere.py"]
    assert files_in("| `core/` | `judge.py`, `nowhere.py` | model |") == ["core/judge.py", "core/nowhere.py"]
    assert not is_test("test_promises.py::test_r2_the_same_receiver_runs_on_every_store")  # two files have that name
    assert not is_test("test_map.py::test_that_is_not_there")
    assert is_test("test_map.py::test_what_is_not_there_is_found")
    assert "Event.key" in names_defined_in(SOURCE / "model" / "event.py")
    assert "Event.nothing" not in names_defined_in(SOURCE / "model" / "event.py")
