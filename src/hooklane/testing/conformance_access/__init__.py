"""What every outbox store must do for keys, sessions and event types, as a test class: see `conformance_outbox`."""

from hooklane.testing.conformance_access.keys import Keys
from hooklane.testing.conformance_access.types import Types


class AccessConformance(Keys, Types):
    """All promises of an outbox store about who may call, and about kinds of events."""


__all__ = ["AccessConformance"]
