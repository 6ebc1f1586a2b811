"""What do the bodies of publishes look like? (Not compiled: msgspec reads their annotations.)"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hooklane.server.schema_words import EVENT_ID, KEY, TYPE, told

BATCH_EVENTS_MAX = 1_000


class EventBody(msgspec.Struct, forbid_unknown_fields=True):
    """An event to publish; `data` stays the bytes that were sent."""

    type: Annotated[str, told(TYPE)]
    data: msgspec.Raw
    key: Annotated[str, told(KEY)] | None = None
    id: Annotated[str, told(EVENT_ID)] | None = None
    endpoints: list[str] | None = None


_EVENT = {"$ref": "#/components/schemas/EventBody"}


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """Events to publish together: all of them or none."""

    events: Annotated[list[Annotated[msgspec.Raw, told(_EVENT)]], told({"maxItems": BATCH_EVENTS_MAX})]


class WholeBatch(msgspec.Struct, forbid_unknown_fields=True):
    """The same, with nothing built of what it holds."""

    events: msgspec.Raw
