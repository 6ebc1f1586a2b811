"""The playground in a real browser: the fixtures of the dashboard's tests."""

from tests.ui.conftest import browser, visit

__all__ = ["browser", "visit"]
