"""What every outbox store must do, as a test class to subclass: only through the public verbs, on any back-end.

class TestMyOutbox(OutboxConformance):
    @pytest.fixture
    async def store(self):
        store = MyOutbox(...)
        await store.open()
        yield store
        await store.close()
"""

from hooklane.testing.conformance_outbox.accounting import Accounting
from hooklane.testing.conformance_outbox.announcing import Announcing
from hooklane.testing.conformance_outbox.fencing import Fencing
from hooklane.testing.conformance_outbox.kit import Outbox, OutboxKit
from hooklane.testing.conformance_outbox.many_workers import ManyWorkers
from hooklane.testing.conformance_outbox.minding import Minding
from hooklane.testing.conformance_outbox.naming import Naming
from hooklane.testing.conformance_outbox.owning import Owning
from hooklane.testing.conformance_outbox.publishing import Publishing
from hooklane.testing.conformance_outbox.reading import Reading
from hooklane.testing.conformance_outbox.recovering import Recovering
from hooklane.testing.conformance_outbox.settling import Settling
from hooklane.testing.conformance_outbox.tenancy import Tenancy


class OutboxConformance(
    Publishing, Naming, Owning, Settling, Announcing, Fencing, Recovering, Accounting, Reading, Minding, Tenancy
):
    """All promises of an outbox store with one deliver worker at a time."""


class ManyWorkersConformance(ManyWorkers):
    """The promises about several live workers, for stores from which several may deliver."""


__all__ = ["ManyWorkersConformance", "Outbox", "OutboxConformance", "OutboxKit"]
