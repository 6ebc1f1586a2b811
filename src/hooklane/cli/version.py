"""`hooklane version`."""

from __future__ import annotations

from hooklane import __version__
from hooklane.cli.output import show


def version() -> None:
    """Print the version."""
    show({"version": __version__}, lambda: [__version__])
