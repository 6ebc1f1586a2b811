"""Writes the tables of docs/explain/proof.md that the tests say: `python -m tools.proof_table`.

Which test shows which fault, goal or attack of the design (tests/proof_rows.txt), and what became of the bugs that were
planted last (tests/faults/planted/last_run.txt). tests/harness/test_proof_table.py compares the page with both.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/explain/proof.md"
ROWS = ROOT / "tests/proof_rows.txt"
KINDS = {
    "F": "Faults",
    "Q": "Goals",
    "S": "Attacks: where deliveries go",
    "R": "Attacks: hostile answers",
    "V": "Attacks: signatures and the receiver",
    "J": "Attacks: what is posted",
    "T": "Attacks: tenants",
    "K": "Attacks: keys and secrets",
    "D": "Attacks: dashboard",
    "O": "Attacks: operations",
}
_LINE = re.compile(r"(?P<id>[A-Z][0-9]+[a-z]?) \| (?P<what>[^|]+) \| (?P<shown>[^|]+)")
_TESTS = re.compile(r"(?P<names>[^(]+?)(?: \((?P<partly>partly: .+)\))?")


class Row(NamedTuple):
    """A line of the design, and what shows it: *tests*, with what they leave out; or why there are none."""

    id: str
    what: str
    tests: tuple[str, ...]
    note: str


@cache
def tests() -> dict[str, list[str]]:
    """All tests by the name of their file, as `path::name`."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.setdefault(path.stem, []).append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def named(short: str) -> str:
    """The one test that `file::beginning` means."""
    stem, _, beginning = short.partition("::")
    fitting = [one for one in tests().get(stem, []) if one.partition("::test_")[2].startswith(beginning)]
    if len(fitting) != 1:
        raise LookupError(f"{short} names {len(fitting)} tests: {fitting}")
    return fitting[0]


def rows() -> list[Row]:
    """The lines of tests/proof_rows.txt, each test found."""
    found = []
    for line in ROWS.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not (parts := _LINE.fullmatch(line)):
            raise ValueError(f"not a row: {line}")
        shown = parts["shown"].strip()
        if shown.startswith("no: "):
            found.append(Row(parts["id"], parts["what"], (), shown.removeprefix("no: ")))
            continue
        inner = _TESTS.fullmatch(shown)
        assert inner is not None, line
        shorts = [one.strip() for one in inner["names"].split(",")]
        found.append(Row(parts["id"], parts["what"], tuple(map(named, shorts)), inner["partly"] or ""))
    return found


def table() -> str:
    """The rows as the page shows them."""
    lines: list[str] = []
    for letter, title in KINDS.items():
        lines += [f"### {title}", "", "| row | what | shown by |", "|---|---|---|"]
        for row in rows():
            if row.id[0] == letter:
                shown = "<br>".join(f"`{one.removeprefix('tests/')}`" for one in row.tests)
                note = row.note if row.tests else f"*no test:* {row.note}"
                lines.append(f"| {row.id} | {row.what} | {'<br>'.join(filter(None, (shown, note)))} |")
        lines.append("")
    return "\n".join(lines)


def written(page: str) -> str:
    """*page* with the table between its marks."""
    begin, end = "<!-- rows: written by tools/proof_table.py -->\n", "<!-- end of rows -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table()}\n{end}{after}"


def main() -> None:
    PAGE.write_text(written(PAGE.read_text()))
    found = rows()
    print(f"{len(found)} rows, {sum(bool(row.tests) for row in found)} with tests")


if __name__ == "__main__":
    main()
