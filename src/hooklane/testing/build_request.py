"""What would this provider have sent? Correctly signed requests for every profile, from the same data that verifies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from hooklane.core.verify.places import InBody, InEnvelope, InHeader, Joined, Place, Proven, put
from hooklane.core.verify.profile import Profile, When
from hooklane.core.verify.reading import Unit, write_instant
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.testing.credentials import Credentials
from hooklane.testing.sign_request import sign_request

# These also send a single event as it is; a batch is made only of several.
_SINGLE = frozenset({"sportsstack"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One event before it has the shape of its provider."""

    type: str
    data: Mapping[str, Any]
    id: str
    key: str | None = None
    seq: int | None = None
    prev_seq: int | None = None
    event_time: Instant | None = None


def build_request(
    profile: Profile,
    secrets: Credentials | Sequence[str],
    type: str,
    data: Mapping[str, Any],
    *,
    id: str,
    at: Instant,
    key: str | None = None,
    seq: int | None = None,
    prev_seq: int | None = None,
    event_time: Instant | None = None,
    attempt: int = 1,
    url: str | None = None,
) -> Request:
    """A request that *profile* accepts at *at*: event *id* of *type*, with *data* where the provider puts it.

    Built again with the same *id* and *event_time* at another time it is a retry: the same event with a new
    timestamp and a new delivery id.
    """
    draft = Draft(type=type, data=data, id=id, key=key, seq=seq, prev_seq=prev_seq, event_time=event_time)
    return build_batch(profile, secrets, [draft], at=at, attempt=attempt, url=url)


def build_batch(
    profile: Profile,
    secrets: Credentials | Sequence[str],
    drafts: Sequence[Draft],
    *,
    at: Instant,
    attempt: int = 1,
    url: str | None = None,
) -> Request:
    """One request with several events, for profiles that have batches."""
    if len(drafts) != 1 and not profile.split:
        raise ValueError(f"{profile.name} sends one event per request, got {len(drafts)}")
    options = secrets.options if isinstance(secrets, Credentials) else {}
    url = url or options.get("url") or f"/webhooks/{profile.name}"
    headers = {"content-type": "application/json"}
    envelope: dict[str, Any] = {}
    shaped = [_shape(profile, draft, envelope, headers, at, attempt) for draft in drafts]
    document = _wrap(profile, shaped, envelope)
    body = json.dumps(document, separators=(",", ":")).encode()
    if profile.name == "twilio":
        headers["content-type"] = "application/x-www-form-urlencoded"
        body = urlencode(document).encode()
    request = Request.of("POST", url, headers, body)
    return sign_request(request, profile, secrets, at, event_id=drafts[0].id if drafts else "evt_none")


def _shape(
    profile: Profile, draft: Draft, envelope: dict[str, Any], headers: dict[str, str], at: Instant, attempt: int
) -> dict[str, Any]:
    event: dict[str, Any] = {}
    data = deepcopy(dict(draft.data))
    if profile.name == "telegram":
        event[draft.type] = data
    elif profile.name == "sns":
        event["Message"] = json.dumps(data)  # its content is a text
    elif profile.data:
        put(event, profile.data, data)
    else:
        event.update(data)

    def place(places: tuple[Place, ...], value: Any) -> None:
        if places and value is not None:
            _put(places[0], value, event, envelope, headers)

    happened = draft.event_time if draft.event_time is not None else at
    place(tuple(when.place for when in profile.event_time), _time(profile.event_time, happened))
    place(profile.key, draft.key)
    place(profile.id, draft.id)
    place(profile.type, draft.type)
    place(profile.seq, draft.seq)
    place(profile.prev_seq, draft.prev_seq if draft.prev_seq is not None or draft.seq is None else draft.seq - 1)
    place(profile.attempt, attempt)
    # A delivery id is new for every attempt; the clock makes it so without asking chance.
    place(profile.delivery_id, f"{draft.id}-{at}-{attempt}")
    _finish(profile, draft, event)
    return event


def _finish(profile: Profile, draft: Draft, event: dict[str, Any]) -> None:
    """What a provider's shape has besides its places."""
    match profile.name:
        case "slack":
            event["type"] = "event_callback"
        case "discord":
            event["type"] = 1
        case "hooklane":
            event["id"] = draft.id
        case "telegram":
            event["update_id"] = int(draft.id) if draft.id.isdigit() else draft.id
        case "sns":
            event["Subject"] = draft.type
        case "twitch":
            put(event, "subscription.type", draft.type)
        case "adyen":
            event.setdefault("amount", {"value": 1000, "currency": "EUR"})
            event.setdefault("merchantAccountCode", "TestMerchant")
            event.setdefault("success", "true")
        case "linear":
            event.setdefault("action", "update")
        case "quickbooks" if draft.key is not None:
            event["intuitentityid"] = draft.key.rpartition(":")[2]  # the kind before it is in the type
    if not profile.id:
        event.setdefault("test_id", draft.id)  # it has no id of its own, so its content must tell it apart


def _time(whens: tuple[When, ...], happened: Instant) -> Any:
    if not whens:
        return None
    text = write_instant(happened, whens[0].unit)
    return int(text) if whens[0].unit in (Unit.SECONDS, Unit.MILLISECONDS) else text


def _put(place: Place, value: Any, event: dict[str, Any], envelope: dict[str, Any], headers: dict[str, str]) -> None:
    match place:
        case InBody(path):
            put(event, path, value)
        case InEnvelope(path):
            put(envelope, path, value)
        case InHeader(name):
            headers[name] = str(value)
        case Joined(places, by):
            values = str(value).split(by, len(places) - 1)
            for each, part in zip(places, values, strict=False):
                _put(each, part, event, envelope, headers)
        case Proven():
            pass  # `sign_request` puts it where it is signed
        case _:
            pass  # read by a function, so there is no one place for it


def _wrap(profile: Profile, events: list[dict[str, Any]], envelope: dict[str, Any]) -> Any:
    if not profile.split or (len(events) == 1 and profile.name in _SINGLE):
        return {**envelope, **events[0]}
    split = profile.split[0]
    items = [{split.unwrap: event} for event in events] if split.unwrap else events
    if not split.path:
        return items
    put(envelope, split.path, items)
    return envelope


__all__ = ["Draft", "build_batch", "build_request"]
