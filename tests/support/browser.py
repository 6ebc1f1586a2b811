"""The Chromium of this machine."""

from tests.prepare import find_browser

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Its path, or one clear line about what is missing."""
    path = find_browser()
    assert path, "Chromium is missing: install the package chromium, for the tests of the dashboard"
    return path
