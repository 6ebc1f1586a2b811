"""What does the API say when something is wrong? RFC 9457 problems with stable codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hooklane.error_numbers import number_named
from hooklane.errors import (
    DiskSpaceLow,
    InvalidEvent,
    Overloaded,
    SearchTooLong,
    SecretsSealed,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreGone,
    StoreRefused,
    StoreUnavailable,
    UsageError,
)
from hooklane.store.outbox import Refused

MEDIA = "application/problem+json"

CODES: Mapping[str, tuple[int, str]] = {
    "invalid_json": (400, "The body is not JSON"),
    "duplicate_key": (400, "An object has the same key twice"),
    "invalid_cursor": (400, "The cursor does not belong to this list"),
    "bad_request": (400, "The request is malformed"),
    "unauthorized": (401, "The API key is missing or wrong"),
    "login_required": (401, "The login of the application is missing"),
    "forbidden": (403, "The API key does not permit this"),
    "cross_site": (403, "The request comes from another site"),
    "for_all_tenants": (403, "This call needs a key for all tenants"),
    "not_found": (404, "Not found"),
    "unknown_tenant": (404, "There is no such tenant"),
    "method_not_allowed": (405, "The method is not supported here"),
    "request_timeout": (408, "The request took too long to arrive"),
    "changed": (409, "Another request changed it in the meantime"),
    "not_dead": (409, "This is not a dead letter, or not any more"),
    "in_progress": (409, "A handler is running for this row"),
    "payload_purged": (409, "The payload was removed by retention"),
    "plan_changed": (409, "What the plan covers has changed since it was made"),
    "plan_expired": (409, "The plan has expired"),
    "tenant_exists": (409, "The id of this tenant is taken"),
    "tenant_suspended": (409, "The tenant is suspended"),
    "wrong_state": (409, "Not possible in the present state"),
    "too_large": (413, "The body is too large"),
    "invalid_type": (422, "The event type is not valid"),
    "invalid_id": (422, "The id is not valid"),
    "invalid_key": (422, "The key is not valid"),
    "invalid_endpoints": (422, "The list of endpoints is not valid"),
    "invalid_idempotency_key": (422, "The idempotency key is not valid"),
    "idempotency_conflict": (422, "The idempotency key or id was used for other content"),
    "schema_violation": (422, "The data breaks the schema of its type"),
    "invalid_schema": (422, "The schema is not one that can be checked"),
    "unknown_endpoint": (422, "There is no such endpoint"),
    "too_deep": (422, "The JSON is nested too deeply"),
    "too_many_keys": (422, "The JSON has too many object keys"),
    "number_too_long": (422, "A number in the JSON is too long"),
    "too_many_events": (422, "The batch holds too many events"),
    "invalid_body": (422, "The body does not have the expected shape"),
    "invalid_parameter": (422, "A parameter of the query is not valid"),
    "invalid_tenant": (422, "The tenant's settings are not valid"),
    "invalid_endpoint": (422, "The endpoint's settings are not valid"),
    "immutable_field": (422, "This field cannot be changed"),
    "url_not_allowed": (422, "Deliveries may not go to this URL"),
    "too_many_members": (422, "The plan would cover too many deliveries"),
    "note_required": (422, "A note is required"),
    "wrong_side": (422, "Not available for dead letters of the inbox"),
    "quota_exceeded": (429, "A quota is used up"),
    "too_many_requests": (429, "Too many requests at once"),
    "headers_too_large": (431, "The headers are too large"),
    "internal": (500, "Something unexpected happened"),
    "secrets_sealed": (503, "A secret in the database does not open with the keys of this server"),
    "inbox_refused": (503, "This server cannot read the inbox in its database"),
    "overloaded": (503, "More is published than can be stored at once"),
    "busy": (503, "Another transaction, which is still open, holds the key"),
    "search_too_long": (503, "The search took too long and was ended"),
    "unavailable": (503, "The database cannot be reached"),
    "unknown_outcome": (503, "It is not known whether this was stored"),
    "storage_gone": (503, "The database file was removed or replaced"),
    "storage_full": (507, "No space is left to store events"),
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
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail or code)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail or self.title
        self.errors = list(errors)
        self.headers = list(headers)
        self.delay_s = 0.0
        """How long the answer is held back."""
        if self.status in (429, 503, 507):
            self.headers.append(("retry-after", str(retry_after_s or (1 if self.status == 429 else 2))))
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
                "number": number_named(self.code),
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
        case SecretsSealed():
            return Problem("secrets_sealed", f"{error}; nothing was changed by this call.")
        case SearchTooLong():
            return Problem("search_too_long", str(error))
        case Overloaded():
            return Problem("overloaded", f"{error}; nothing was stored by this call. Send it again in a moment.")
        case StoreBusy():
            return Problem("busy", f"{error}; nothing was stored by this call.")
        case DiskSpaceLow():
            return Problem("storage_full", f"{error}; nothing was stored by this call.")
        case StoreGone():
            return Problem(
                "storage_gone",
                "The database file was removed or replaced while the server was running, so nothing can be stored."
                " Restore the file and restart the server.",
            )
        case StoreFull():
            return Problem(
                "storage_full",
                "The disk of the database is full. Nothing was stored by this call; free some space and send it again.",
            )
        case StoreUnavailable():
            return Problem(
                "unavailable", "The database cannot be reached. Nothing was stored by this call; send it again later."
            )
        case StoreRefused():
            return Problem(
                "unavailable",
                "The database refused what this server asked of it. Nothing was stored by this call; the server's log"
                " has the reason.",
            )
        case StoreError():
            return Problem(
                "unknown_outcome",
                "The database failed during this call, and whether the event was stored is not known."
                " Send it again with the same Idempotency-Key or id: it counts once.",
            )
        case UsageError():
            return Problem("invalid_body", str(error))
        case _:
            return Problem("internal", "This is a bug in hooklane; the server's log has the details.")


def refused(refusal: Refused) -> Problem:
    """The problem of a draft that was refused."""
    code = refusal.code if refusal.code in CODES else "invalid_body"
    return Problem(code, refusal.detail, retry_after_s=refusal.retry_after_s)
