"""Node.js and npm for tests, and where `tests.prepare` puts what comes from npm."""

from tests.support.tree import ROOT
from tools.node import NodeMissing, node, npm

__all__ = ["CONSUMER", "CONSUMER_CACHE", "CONSUMER_PACKAGES", "DASHBOARD_PACKAGES", "NodeMissing", "node", "npm"]

CONSUMER = ROOT / "examples" / "node_consumer"
CONSUMER_PACKAGES = ROOT / ".servers" / "node_consumer"
CONSUMER_CACHE = CONSUMER_PACKAGES / "npm-cache"
DASHBOARD_PACKAGES = ROOT / ".servers" / "dashboard"
