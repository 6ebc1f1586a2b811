"""The one HTTP request that everything is about, under one deadline and within limits."""

from hooklane.sender.transport.transport import USER_AGENT, Transport

__all__ = ["USER_AGENT", "Transport"]
