"""Node.js and npm for tests, and where `tests.prepare` puts what comes from npm."""

from pathlib import Path

from tools.node import NodeMissing, node, npm

__all__ = ["CONSUMER", "CONSUMER_CACHE", "CONSUMER_PACKAGES", "DASHBOARD_PACKAGES", "NodeMissing", "node", "npm"]

ROOT = Path(__file__).resolve().parents[2]
CONSUMER = ROOT / "examples" / "node_consumer"
CONSUMER_PACKAGES = ROOT / ".servers" / "node_consumer"
CONSUMER_CACHE = CONSUMER_PACKAGES / "npm-cache"
DASHBOARD_PACKAGES = ROOT / ".servers" / "dashboard"
