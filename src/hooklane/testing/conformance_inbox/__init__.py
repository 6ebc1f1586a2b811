"""What every store of the inbox promises. Subclass it, give it a store, and let pytest run it:

class TestMyInbox(InboxConformance):
    @pytest.fixture
    def store(self):
        return MyInbox(…)
"""

from hooklane.testing.conformance_inbox.handling import Handling
from hooklane.testing.conformance_inbox.keeping import Keeping
from hooklane.testing.conformance_inbox.kit import HANDLER, SOURCE, WORK, owed, perform, row, together
from hooklane.testing.conformance_inbox.ordering import Ordering
from hooklane.testing.conformance_inbox.reading import Reading
from hooklane.testing.conformance_inbox.receiving import Receiving


class InboxConformance(Receiving, Handling, Ordering, Keeping, Reading):
    """The promises. A back-end may differ only in its `Capabilities`."""


__all__ = ["HANDLER", "SOURCE", "WORK", "InboxConformance", "owed", "perform", "row", "together"]
