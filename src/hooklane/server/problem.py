"""What does the API say when something is wrong? RFC 9457 problems with stable codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hooklane.errors import InvalidEvent, StoreError, StoreFull, StoreUnavailable, UsageError

MEDIA = "application/problem+json"

CODES: Mapping[str, tuple[int, str]] = {
    "invalid_json": (400, "The body is not JSON"),
    "duplicate_key": (400, "An object has the same key twice"),
    "invalid_cursor": (400, "The cursor is not one that this list gave"),
    "bad_request": (400, "The request is malformed"),
    "unauthorized": (401, "The API key is missing or wrong"),
    "cross_site": (403, "The request comes from another site"),
    "not_found": (404, "There is no such thing"),
    "method_not_allowed": (405, "This resource does not know that method"),
    "request_timeout": (408, "The request took too long to arrive"),
    "changed": (409, "It changed in the meantime"),
    "not_dead": (409, "It is not a dead letter any more"),
    "in_progress": (409, "A handler is at work on it"),
    "payload_purged": (409, "Its payload is gone"),
    "plan_changed": (409, "The plan does not hold any more"),
    "plan_expired": (409, "The plan is too old"),
    "wrong_state": (409, "Its state does not allow that"),
    "too_large": (413, "The body is too large"),
    "invalid_type": (422, "The event type is not valid"),
    "invalid_id": (422, "The id is not valid"),
    "invalid_key": (422, "The key is not valid"),
    "invalid_endpoints": (422, "The list of endpoints is not valid"),
    "invalid_idempotency_key": (422, "The idempotency key is not valid"),
    "idempotency_conflict": (422, "The idempotency key or id was used for other content"),
    "unknown_endpoint": (422, "There is no such endpoint"),
    "too_deep": (422, "The JSON is nested too deeply"),
    "too_many_keys": (422, "The JSON has too many object keys"),
    "number_too_long": (422, "A number in the JSON is too long"),
    "too_many_events": (422, "The batch holds too many events"),
    "invalid_body": (422, "The body does not have the expected shape"),
    "invalid_parameter": (422, "A parameter of the query is not valid"),
    "invalid_endpoint": (422, "The endpoint's settings are not valid"),
    "immutable_field": (422, "This field cannot be changed"),
    "url_not_allowed": (422, "Deliveries may not go to this URL"),
    "too_many_members": (422, "The plan would hold too much"),
    "note_required": (422, "A note is required"),
    "wrong_side": (422, "The other side of a webhook has no such thing"),
    "quota_exceeded": (429, "Too many events are undelivered"),
    "too_many_requests": (429, "Too many requests at once"),
    "headers_too_large": (431, "The headers are too large"),
    "internal": (500, "Something unexpected happened"),
    "inbox_refused": (503, "The inbox in this database is not one that this server may read"),
    "unavailable": (503, "The store cannot be reached"),
    "unknown_outcome": (503, "It is not known whether this was stored"),
    "storage_full": (507, "The disk is full"),
}


class Problem(Exception):
    """The call was not done; *code* says why, for programs, and *detail* for people."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(detail or code)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail or self.title
        self.errors = list(errors)
        self.headers = list(headers)
        if self.status in (429, 503, 507):
            self.headers.append(("retry-after", "1" if self.status == 429 else "2"))
        if self.status == 401:
            self.headers.append(("www-authenticate", "Bearer"))

    def body(self) -> bytes:
        return msgspec.json.encode(
            {
                "type": f"/api/docs#{self.code}",
                "title": self.title,
                "status": self.status,
                "detail": self.detail,
                "code": self.code,
                "errors": self.errors,
            }
        )


def problem_of(error: Exception) -> Problem:
    """The problem that an exception of ours is to the caller; anything else is our own fault."""
    match error:
        case Problem():
            return error
        case InvalidEvent(code=code) if code in CODES:
            return Problem(code, str(error))
        case InvalidEvent():
            return Problem("invalid_body", str(error))
        case StoreFull():
            return Problem("storage_full", "The disk is full; nothing was stored by this call.")
        case StoreUnavailable():
            return Problem("unavailable", "The store cannot be reached; nothing was stored by this call.")
        case StoreError():
            return Problem(
                "unknown_outcome",
                "The store failed during this call. Repeat it under the same Idempotency-Key or id: it counts once.",
            )
        case UsageError():
            return Problem("invalid_body", str(error))
        case _:
            return Problem("internal", "Something unexpected happened; the server's log has the details.")


def refused(code: str, detail: str) -> Problem:
    """The problem of a draft that the store refused."""
    return Problem(code if code in CODES else "invalid_body", detail)
