"""What does a request body say? Strict JSON, checked before anything is done with it."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from hooklane.core.entry import admit_json
from hooklane.errors import InvalidEvent
from hooklane.model.clock import Instant
from hooklane.model.publishing import Draft
from hooklane.model.size import size_beside, size_text
from hooklane.sender.draft import draft_of
from hooklane.server.event_bodies import BATCH_EVENTS_MAX, EventBody, WholeBatch
from hooklane.server.problem import Problem

BODY_BYTES_MAX: Final = 256 * 1024
EVENT_BODY_BYTES_MAX: Final = BODY_BYTES_MAX + 16 * 1024
"""An event's data may fill 256 KiB; type, key, id and endpoints stand round it."""
BATCH_BYTES_MAX = 8 * 1024 * 1024

S = TypeVar("S", bound=msgspec.Struct)

_Events = msgspec.defstruct(
    "_Events",
    [(f"at_{place}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for place in range(BATCH_EVENTS_MAX)],
    array_like=True,
    forbid_unknown_fields=True,
)
"""An array of so many at most: the reader stops at the first that is too many, however many follow."""

_decode_event: Final = msgspec.json.Decoder(EventBody).decode
_decode_batch = msgspec.json.Decoder(WholeBatch).decode
_decode_events = msgspec.json.Decoder(_Events).decode
_skip = msgspec.json.Decoder(msgspec.Raw).decode
_TOLD_CHARS_MAX = 300  # msgspec's message holds a member's name whole, which may be as long as the body
_ONE_MEMBER = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\Z')
LINES_MAX = 100 * BATCH_EVENTS_MAX


def read(text: bytes, shape: type[S]) -> S:
    """*text* as a *shape*: 400 when it is not strict JSON, 422 when it has another shape. No text is no fields."""
    text = text or b"{}"
    strict(text, bytes_max=BODY_BYTES_MAX)
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError as error:
        raise misshaped(error) from None


def strict(text: bytes, *, bytes_max: int, depth_max: int = 64, keys_max: int = 10_000) -> Any:
    """The tree of strict JSON, or a Problem."""
    try:
        return admit_json(text, "the body", bytes_max=bytes_max, depth_max=depth_max, keys_max=keys_max)
    except InvalidEvent as error:
        raise Problem(error.code, str(error)) from None


def read_event(text: bytes) -> EventBody:
    """One event of the wire. The data inside it is not checked yet: `draft_of` does that once."""
    try:
        body = _decode_event(text)
    except msgspec.ValidationError as error:
        # What is no strict JSON at all is told first: a missing field matters less than a broken text.
        strict(text, bytes_max=EVENT_BODY_BYTES_MAX, depth_max=66, keys_max=10_100)
        raise misshaped(error) from None
    except RecursionError:
        raise Problem("too_deep", "the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("invalid_json", f"the body is not JSON: {error}") from None
    # Fields of ours that stand there once, spelled plainly, cannot be there twice; anything else is looked at closely.
    # (Spelled out rather than looped: this runs for every event.)
    if (
        text.find(b"\\") >= 0  # `in` would first ask whether it is a number
        or text.count(b'"type"') > 1
        or text.count(b'"data"') > 1
        or text.count(b'"key"') > 1
        or text.count(b'"id"') > 1
        or text.count(b'"endpoints"') > 1
    ):
        strict(text, bytes_max=EVENT_BODY_BYTES_MAX, depth_max=66, keys_max=10_100)
    return body


def draft_from(
    body: EventBody, tenant: str, now: Instant, idempotency_key: str | None, names: tuple[str, ...] = ()
) -> Draft:
    """The draft that a body of the wire asks for; *names* are given to it by its batch."""
    return draft_of(
        body.type,
        bytes(body.data),
        now=now,
        key=body.key,
        event_id=body.id,
        endpoints=body.endpoints,
        idempotency_key=idempotency_key,
        names=names,
        tenant=tenant,
    )


def read_batch(text: bytes, *, lines: bool) -> list[EventBody]:
    """The events of a batch: `{"events": [...]}`, or one a line (*lines*)."""
    if len(text) > BATCH_BYTES_MAX:
        raise Problem(
            "too_large",
            f"a batch is at most {size_text(BATCH_BYTES_MAX)}, this one is {size_beside(len(text), BATCH_BYTES_MAX)}",
        )
    bodies = []
    for position, line in enumerate(_lines_of(text) if lines else _texts_of(text)):
        try:
            if len(line) > EVENT_BODY_BYTES_MAX:
                raise Problem(
                    "too_large",
                    f"an event is at most {size_text(EVENT_BODY_BYTES_MAX)}, "
                    f"this one is {size_beside(len(line), EVENT_BODY_BYTES_MAX)}",
                )
            bodies.append(read_event(line))
        except Problem as problem:
            raise at(problem, position) from None
    return bodies


def at(problem: Problem, position: int) -> Problem:
    """*problem*, told of the event at *position* of a batch."""
    error = {"index": position, "code": problem.code, "detail": problem.detail}
    made = Problem(problem.code, f"event {position}: {problem.detail}", errors=[error])
    made.headers = problem.headers  # when to come back is the same
    return made


def _lines_of(text: bytes) -> list[bytes]:
    if text.count(b"\n") > LINES_MAX:
        raise Problem("too_many_events", f"a batch has at most {LINES_MAX:,} lines, empty ones included")
    found = [line for line in text.split(b"\n") if line.strip()]
    if len(found) > BATCH_EVENTS_MAX:
        raise _too_many()
    return found


def _texts_of(text: bytes) -> list[bytes]:
    """The texts of the events. Nothing is built but them: a text of another shape is only read over."""
    try:
        batch = _decode_batch(text)
    except msgspec.ValidationError as error:
        _must_be_json(text)
        raise misshaped(error) from None
    except RecursionError:
        raise Problem("too_deep", "the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("invalid_json", f"the body is not JSON: {error}") from None
    events = bytes(batch.events)
    # The last member is the one that was read; what stands before it must be the brace and its name.
    if not _ONE_MEMBER.match(text.rstrip()[:-1].rstrip()[: -len(events)]):
        raise Problem("duplicate_key", "an object in the body has the same key twice")
    if not events.startswith(b"["):
        raise misshaped(msgspec.ValidationError("Expected `array` - at `$.events`"))
    try:
        found = _decode_events(events)
    except msgspec.ValidationError:
        raise _too_many() from None
    return [bytes(one) for one in msgspec.structs.astuple(found) if one is not msgspec.UNSET]


def _must_be_json(text: bytes) -> None:
    try:
        _skip(text)
    except RecursionError:
        raise Problem("too_deep", "the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("invalid_json", f"the body is not JSON: {error}") from None


def _too_many() -> Problem:
    return Problem(
        "too_many_events", f"a batch has at most {BATCH_EVENTS_MAX:,} events, this one has more: send several batches"
    )


def misshaped(error: msgspec.ValidationError) -> Problem:
    """msgspec's message names the field and what was expected; its path becomes the error's place."""
    text = str(error)[:_TOLD_CHARS_MAX]
    message, _, path = text.partition(" - at `")
    where = path.rstrip("`").removeprefix("$").lstrip(".") or None
    return Problem("invalid_body", text, errors=[{"field": where, "detail": message}])
