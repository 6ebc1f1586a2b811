"""What did this process send or publish of late? What a database has lost is found by asking it for just that."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from hooklane.model.attempt import Send
from hooklane.model.clock import Instant
from hooklane.model.lane import Grown
from hooklane.model.lost import KnownPlace
from hooklane.model.redelivery import is_redelivery

PLACES_MAX = 32_768
"""What a failover loses is the last moments: at 5,000 events a second that a process both publishes and sends, these
are the last three seconds, in 10 MB."""

LOOSE_MS = 600_000
"""A standby is rarely so late."""


class Witness:
    """The last places that were sent or published, the oldest first; the older ones are forgotten."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        # Plain tuples: one is made for every event.
        self._places: deque[tuple[str, str, str | None, int, int, str, Instant]] = deque(maxlen=places_max)

    def __bool__(self) -> bool:
        return bool(self._places)

    def sent(self, sends: Iterable[Send]) -> None:
        add = self._places.append
        for send in sends:
            if not is_redelivery(send.lane_id):  # what is sent again has the place that it had
                endpoint, event = send.endpoint, send.event
                add((endpoint.tenant, endpoint.id, send.key, send.pid, send.seq, event.id, event.created_at))

    def published(self, grown: Iterable[Grown]) -> None:
        add = self._places.append
        for one in grown:
            event = one.event
            assert event is not None  # it comes along where this process published it
            add((event.tenant, one.endpoint_id, one.key, one.pid, one.seq, event.id, event.created_at))

    def places(self, now: Instant) -> Sequence[KnownPlace]:
        """All of them, the oldest first. None is forgotten by that: the next failover may lose what is on record.

        Of what has no place in a lane only the young: when it was pruned, nothing tells it from what is lost.
        """
        known = [KnownPlace(*place) for place in dict.fromkeys(self._places)]
        return [one for one in known if one.key is not None or now - one.created_at < LOOSE_MS]
