"""What every outbox store must do for recovery, as a test class to subclass (see `conformance_outbox`)."""

from hooklane.testing.conformance_recovery.auditing import Auditing
from hooklane.testing.conformance_recovery.bookkeeping import Bookkeeping
from hooklane.testing.conformance_recovery.carrying_out import CarryingOut
from hooklane.testing.conformance_recovery.kit import Store
from hooklane.testing.conformance_recovery.planning import Planning
from hooklane.testing.conformance_recovery.redelivering import Redelivering
from hooklane.testing.conformance_recovery.retaining import Retaining


class RecoveryConformance(Auditing, Planning, CarryingOut, Redelivering, Retaining, Bookkeeping):
    """All promises of an outbox store about plans, jobs, redeliveries, the audit log, retention and the ledger."""


__all__ = ["RecoveryConformance", "Store"]
