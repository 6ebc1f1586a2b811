"""What the pages of docs/reference/ that are written from the code have in common."""

from __future__ import annotations

WRITTEN = "<!-- written by tools/reference_pages.py -->\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
