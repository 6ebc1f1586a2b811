"""How does an event become a draft? The one door for API, command line and outbox."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from hooklane.core.entry import admit_data, admit_id, admit_key, admit_type
from hooklane.errors import InvalidEvent
from hooklane.model.clock import Instant
from hooklane.model.event import DEFAULT_TENANT, Event
from hooklane.model.ids import new_id
from hooklane.model.publishing import BATCH_END
from hooklane.store.outbox import Draft

ENDPOINTS_MAX = 100

_ENDPOINT_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_LIKE_A_PLACE = re.compile(r"#[0-9]*\Z")
"""The end of the name of a place in a batch (`names_in_batch`), or of a name that was told apart from one by a `#`."""
_IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}\Z")


def draft_of(
    type_: str,
    data: bytes,
    *,
    now: Instant,
    key: str | None = None,
    event_id: str | None = None,
    endpoints: Sequence[str] | None = None,
    idempotency_key: str | None = None,
    names: tuple[str, ...] = (),
    tenant: str = DEFAULT_TENANT,
    chance: bytes | None = None,
) -> Draft:
    """An admitted event, *data* byte for byte as given; InvalidEvent says which rule it breaks.

    *names* are those that its batch gives it (`names_in_batch`).
    """
    former: str | None = None
    admit_type(type_)
    if key is not None:
        admit_key(key)
    if event_id is not None:
        admit_id(event_id)
        names = (*names, f"id:{event_id}")
    if idempotency_key is not None:
        admit_idempotency_key(idempotency_key)
        # Two name spaces: an idempotency key that reads like an id is not that id.
        names = (f"key:{idempotency_key}", *names)
        if _LIKE_A_PLACE.search(idempotency_key):  # nor is one that reads like a place in a batch that place
            names, former = (f"{names[0]}#", *names[1:]), names[0]
    asked: tuple[str, ...] | None = None
    if endpoints is not None:
        asked = tuple(dict.fromkeys(endpoints))
        if not 1 <= len(asked) <= ENDPOINTS_MAX:
            # An empty list is a mistake: without `endpoints` an event goes to all that want its type.
            raise InvalidEvent("invalid_endpoints", f"endpoints must name 1 to {ENDPOINTS_MAX}, got {len(asked)}")
        for endpoint_id in asked:
            if not _ENDPOINT_ID.match(endpoint_id):
                raise InvalidEvent("unknown_endpoint", f"there is no endpoint with the id {endpoint_id[:140]!r}")
    admit_data(data)
    event = Event(event_id or new_id("evt", now, chance), type_, key, data, now, tenant)
    # Nothing will ask for the digest of an event without a name.
    return Draft(event, asked, names, digest_of(type_, key, asked, data) if names else b"", former)


def admit_idempotency_key(text: str) -> None:
    if not _IDEMPOTENCY_KEY.match(text):
        raise InvalidEvent("invalid_idempotency_key", "Idempotency-Key must be 1-255 printable ASCII characters")


def names_in_batch(idempotency_key: str, position: int, many: int) -> tuple[str, ...]:
    """What the event at *position* of a batch of *many* may not share: its place, and whether it is the last one.

    Repeating the batch repeats every event. One that is shorter or longer has another last event: a conflict.
    """
    place = f"key:{idempotency_key}#{position}"
    return (f"{BATCH_END}{idempotency_key}", place) if position == many - 1 else (place,)


def digest_of(type_: str, key: str | None, asked: Sequence[str] | None, data: bytes) -> bytes:
    """What makes two publishes the same: type, key, endpoints (in any order) and the very bytes of the data."""
    # None of the parts before the data can hold a newline, so the text cannot be read in two ways.
    head = f"{type_}\n{'' if key is None else '=' + key}\n{'' if asked is None else '=' + ','.join(sorted(asked))}\n"
    return hashlib.sha256(head.encode() + data).digest()
