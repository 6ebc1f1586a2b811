"""The one HTTP request that everything is about, under one deadline and within limits."""

from hooklane.sender.transport.transport import Transport

__all__ = ["Transport"]
