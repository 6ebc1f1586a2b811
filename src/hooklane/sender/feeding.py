"""Which worker hears first of what this process has published, so that it need not wait for its next poll?"""

from __future__ import annotations

from collections.abc import Callable

from hooklane.sender.relay import Relay
from hooklane.store.outbox import PublishReport


def feed_of(relay: Relay | None, nudge: Callable[[], None] | None) -> Callable[[PublishReport], None] | None:
    """The relay of this process is told what was published; where other processes deliver, they are nudged to poll.

    None where neither is known: then the workers find it by their polls.
    """
    if relay is not None:
        return relay.feed
    if nudge is not None:
        return lambda _: nudge()
    return None
