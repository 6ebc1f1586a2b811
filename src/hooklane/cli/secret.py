"""Which secrets does a command sign or verify with? Those it is given, else those of the environment."""

from __future__ import annotations

import os
from pathlib import Path

from hooklane.cli.exits import CallFailed, Exit

NAME = "HOOKLANE_SECRET"


def secrets_of(given: list[str] | None) -> list[str]:
    """At least one secret; several in the environment have commas between them, as while one is rotated."""
    found = secrets_or_none(given)
    if not found:
        raise CallFailed(f"give the secret with --secret or {NAME}", Exit.USAGE)
    return found


def secrets_or_none(given: list[str] | None) -> list[str]:
    """The secrets that were given, or those of the environment; perhaps none."""
    return given or [one.strip() for one in _environment().split(",") if one.strip()]


def _environment() -> str:
    if NAME in os.environ or f"{NAME}_FILE" not in os.environ:
        return os.environ.get(NAME, "")
    path = Path(os.environ[f"{NAME}_FILE"])
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CallFailed(f"{NAME}_FILE: cannot read {path}: {why}", Exit.USAGE) from None
