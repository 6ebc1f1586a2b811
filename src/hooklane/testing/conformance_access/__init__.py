"""What every outbox store must do for keys, sessions and event types, as a test class: see `conformance_outbox`."""

from hooklane.testing.conformance_access.keys import Keys
from hooklane.testing.conformance_access.kit import Store


class AccessConformance(Keys):
    """All promises of an outbox store about who may call."""


__all__ = ["AccessConformance", "Store"]
