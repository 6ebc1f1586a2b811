"""The examples of a mounted dashboard, each under a real server, and a browser."""

from tests.ui.conftest import browser, one_core, visit

__all__ = ["browser", "one_core", "visit"]
