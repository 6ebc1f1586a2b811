"""The bugs to plant, read from bugs.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.faults.planted.planting import Bug


def _read() -> list[Bug]:
    table = tomllib.loads(Path(__file__).with_name("bugs.toml").read_text())
    suites: dict[str, list[str]] = table["suites"]
    return [
        Bug(**{**bug, "suite": " ".join(one for word in bug["suite"].split() for one in suites.get(word, [word]))})
        for bug in table["bug"]
    ]


BUGS = _read()
