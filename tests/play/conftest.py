"""The playground in a real browser: the fixtures of the dashboard's tests."""

from tests.ui.conftest import browser, one_core, visit

__all__ = ["browser", "one_core", "visit"]
