"""`hooklane version`."""

from __future__ import annotations

import typer

from hooklane import __version__
from hooklane.cli.output import show


def add_to(app: typer.Typer) -> None:
    app.command()(version)


def version() -> None:
    """Print the version."""
    show({"version": __version__}, lambda: [__version__])
