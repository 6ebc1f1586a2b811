"""What else the live stream tells: what is new of endpoints, jobs, dead letters and the inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.lane import DeliveryState
from hooklane.server.api.dead_letters import letter_views
from hooklane.server.api.endpoints import endpoint_views
from hooklane.server.api.jobs import job_view
from hooklane.server.services import Services

JOBS_SHOWN = 20
LETTERS_SHOWN = 50
_UNLIKE = ("secret_age_s",)
"""What changes by itself and is no news."""

Value = Mapping[str, Any]


class Topics:
    """Asks the store what a topic is about, and tells what is new of it; None where nothing is."""

    def __init__(self, services: Services, tenant: str) -> None:
        self._services = services
        self._tenant = tenant
        self._known: dict[str, dict[str, Value]] = {}
        self._last_letter = (0, "")
        self._open = -1

    async def endpoints(self) -> Value | None:
        return self._changed("endpoints", await endpoint_views(self._services, self._tenant))

    async def jobs(self) -> Value | None:
        page = await self._services.store.jobs(self._tenant, run=True, states=None, cursor=None, limit=JOBS_SHOWN)
        return self._changed("jobs", [job_view(job) for job in page.items])

    async def inbox(self) -> Value | None:
        """The sources of the inbox that changed; the inbox in the server's database belongs to `default`."""
        if self._tenant != DEFAULT_TENANT:
            return None
        made = await self._services.inbox_sources.of("")
        return self._changed("inbox", [{"id": one["source"], **one} for one in made.value])

    async def dead_letters(self) -> Value | None:
        """Letters that died since the last look, and how many are open: where that shrinks, some were settled."""
        store = self._services.store
        newest = await store.newest_letters(self._tenant, self._last_letter, LETTERS_SHOWN)
        opened = (await self._services.totals.of(self._tenant)).ledger[DeliveryState.DEAD]
        if not newest and opened == self._open:
            return None
        items = await letter_views(self._services, self._tenant, list(reversed(newest)))
        if len(newest) == LETTERS_SHOWN and self._open >= 0:
            self._services.live_stream.reset(self._tenant)  # more may have died than are told
        # Only now: a store that fails before this is asked for the same letters again.
        self._open = opened
        if newest:
            self._last_letter = (newest[0].died_at, newest[0].id)
        return {"items": items, "open": opened}

    def _changed(self, topic: str, views: Sequence[Value]) -> Value | None:
        """Those of *views* that are not as they were told last."""
        now: dict[str, Value] = {str(view["id"]): {**view, **dict.fromkeys(_UNLIKE)} for view in views}
        before = self._known.get(topic, {})
        shown = {str(view["id"]): view for view in views}
        self._known[topic] = now
        items = [shown[id] for id, view in now.items() if before.get(id) != view]
        gone = [id for id in before if id not in now]
        return {"items": items, "gone": gone} if items or gone else None


def topics_of(services: Services, tenant: str) -> Mapping[str, Callable[[], Awaitable[Value | None]]]:
    """What the live stream of *tenant* asks for at each look, by topic."""
    topics = Topics(services, tenant)
    return {
        "endpoints": topics.endpoints,
        "jobs": topics.jobs,
        "dead_letters": topics.dead_letters,
        "inbox": topics.inbox,
    }
