"""Dead letters: look at what died, note why, send it again, or give it up and release its lane.

An id says whose letter it is: the sender's are `dlv_…`, a row of the inbox is a number.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.model.clock import rfc3339
from hooklane.sender.egress import UrlNotAllowed
from hooklane.server import views
from hooklane.server.api import inbox_letters
from hooklane.server.call import NDJSON, PAGING, Call, Param, Response, Routes, answer, pattern_of
from hooklane.server.inbox_rows import is_row
from hooklane.server.problem import Problem
from hooklane.server.schema_words import STATUS, TIME, one_of, text_of, told
from hooklane.server.services import Services
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import Causes, CauseShape, DeadLetterShape, RecoveryShape, WholeDeadLetter
from hooklane.store.outbox import Recovery
from hooklane.store.reads import PAGE_MAX, DeadLetter, LetterFilter

CAUSES_SHOWN = 500
ASSIGNEE_CHARS_MAX = 200
HTTP = re.compile(r"[1-5]([0-9]{2}|xx)\Z")
NO_LETTER = "there is no dead letter with this id: it was replayed or skipped, or never existed"


class NoteBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a person wants to remember about a dead letter, and who looks after it; empty text takes either away."""

    note: Annotated[str, told(text_of(views.NOTE_CHARS_MAX))] | UnsetType = UNSET
    assignee: Annotated[str, told(text_of(ASSIGNEE_CHARS_MAX))] | UnsetType = UNSET


class SkipBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why an event is given up."""

    note: str | None = None


_FILTER = (
    Param(
        "side",
        "sender (unless given) or inbox: what the handlers of this database's inbox gave up",
        one_of(("sender", "inbox")),
    ),
    Param("endpoint", "id of an endpoint; sender only"),
    Param("key", "exact key; sender only"),
    Param("type", "a type, with `*` for anything; sender only"),
    Param("reason", "why it died, such as timeout, with `*` for anything; sender only"),
    Param("http", "the last status, such as 422 or 5xx; sender only", STATUS),
    Param("after", "died at or after this time; sender only", TIME),
    Param("before", "died before this time; sender only", TIME),
    Param("source", "exact name of a source; inbox only"),
    Param("account", "as the application's source says; inbox only"),
)
routes = Routes("dead letters", "/api/v1/dead-letters")


@routes.get(
    "",
    "What died; with `Accept: application/x-ndjson` all of it, one a line.",
    query=(*_FILTER, *PAGING),
    gives_lines=True,
    answers=ListShape[DeadLetterShape],
)
async def search(call: Call) -> Response:
    services, query = call.services, call.query
    side = call.word("side", _OTHERS, "sender")
    if foreign := [name for name in _OTHERS[side] if name in query]:
        raise Problem(
            "invalid_parameter", f"{foreign[0]} is not a filter for side={side}; use it with side={_OTHER_SIDE[side]}"
        )
    if side == "inbox":
        return await inbox_letters.search(call)
    wanted = _wanted(call)
    if call.wants_lines():
        return Response(200, media=NDJSON, stream=_lines(call, wanted))
    page = await services.store.dead_letters(call.tenant, wanted, call.cursor("dead-letters"), call.limit())
    return answer(call.listed("dead-letters", page, await letter_views(services, call.tenant, page.items)))


def _wanted(call: Call) -> LetterFilter:
    query = call.query
    return LetterFilter(
        endpoint_id=query.get("endpoint"),
        key=query.get("key"),
        type=pattern_of(query.get("type"), "type"),
        reason=reason_of(query.get("reason"), query.get("http")),
        after=call.instant("after"),
        before=call.instant("before"),
    )


def reason_of(reason: str | None, http: str | None, code: str = "invalid_parameter") -> str | None:
    """What to look for in the reasons of failures: *reason*, or the status *http*."""
    if http is not None:
        if reason is not None or not HTTP.match(http):
            raise Problem(code, "http must be a status such as 422 or 5xx, and cannot be combined with reason")
        return http.replace("x", "?")
    return pattern_of(reason, "reason", code)


async def letter_views(services: Services, tenant: str, letters: Sequence[DeadLetter]) -> list[views.View]:
    """Dead letters with the names of their endpoints and what those answered last."""
    names = {one.id: one.name for one in await services.store.endpoints(tenant)}
    words = await services.store.last_words(letters)
    return [views.dead_letter(letter, names, words.get(letter.id)) for letter in letters]


async def _lines(call: Call, wanted: LetterFilter) -> AsyncIterator[bytes]:
    """All of them, page by page, so that an export of many never stands in memory."""
    cursor: str | None = None
    while True:
        page = await call.services.store.dead_letters(call.tenant, wanted, cursor, PAGE_MAX)
        if page.items:
            yield b"".join(
                msgspec.json.encode(view) + b"\n" for view in await letter_views(call.services, call.tenant, page.items)
            )
        cursor = page.next
        if cursor is None:
            return


@routes.get(
    "/causes",
    "Why letters died, by endpoint and reason, and how much each cause holds back; as of `as_of`.",
    answers=Causes,
)
async def causes(call: Call) -> Response:
    """Why letters died, those with most letters first."""
    made = await call.services.causes.of(call.tenant)
    names = {one.id: one.name for one in await call.services.store.endpoints(call.tenant)}
    items = [
        views.filled(CauseShape, one, endpoint_name=names.get(one.endpoint_id, "")) for one in made.value[:CAUSES_SHOWN]
    ]
    return answer({"items": items, "next": None, "as_of": rfc3339(made.as_of)})


@routes.get(
    "/{id}",
    "A dead letter with its data (`dlv_…`), or a dead row of the inbox with its payload (a number).",
    answers=WholeDeadLetter,
)
async def show(call: Call) -> Response:
    if is_row(call.params["id"]):
        return await inbox_letters.show(call)
    letter = await _find(call)
    event = await call.services.store.event(call.tenant, letter.event_id)
    [view] = await letter_views(call.services, call.tenant, [letter])
    view["data"] = None if event is None else msgspec.Raw(event.data)
    return answer(view)


@routes.patch(
    "/{id}",
    "Write a note on it, or say who looks after it; a row of the inbox has no place for either.",
    takes=NoteBody,
    answers=DeadLetterShape,
)
async def note(call: Call) -> Response:
    body = call.read(NoteBody)
    if body.note is UNSET and body.assignee is UNSET:
        raise Problem("invalid_body", "give `note`, `assignee` or both")
    if isinstance(body.note, str):
        views.checked_note(body.note)
    if isinstance(body.assignee, str):
        _checked_assignee(body.assignee)
    if is_row(call.params["id"]):
        return await inbox_letters.note(call)
    store, letter_id = call.services.store, call.params["id"]
    if isinstance(body.note, str):
        noted = call.act("dead_letter.noted", letter_id, body.note)
        if not await store.set_note(call.tenant, letter_id, body.note, act=noted):
            raise Problem("not_found", NO_LETTER)
    if isinstance(body.assignee, str):
        assigned = call.act("dead_letter.assigned", letter_id, body.assignee)
        if not await store.assign(call.tenant, letter_id, body.assignee, act=assigned):
            raise Problem("not_found", NO_LETTER)
    [view] = await letter_views(call.services, call.tenant, [await _find(call)])
    return answer(view)


def _checked_assignee(text: str) -> None:
    if len(text) > ASSIGNEE_CHARS_MAX or not text.isprintable():
        raise Problem("invalid_body", f"assignee must have at most {ASSIGNEE_CHARS_MAX} printable characters")


@routes.post(
    "/{id}/replay",
    "Send it again: same id, seq and bytes, attempts from zero; or run an inbox row's dead handlers again.",
    answers=RecoveryShape,
)
async def replay(call: Call) -> Response:
    """Try it again under the same id, seq and bytes; its lane stays closed behind it until it lands."""
    if is_row(call.params["id"]):
        return await inbox_letters.replay(call)
    services = call.services
    letter = await _find(call)
    endpoint = await services.store.endpoint(call.tenant, letter.endpoint_id)
    if endpoint is not None:
        try:
            services.guard.check(endpoint.url)
        except UrlNotAllowed as error:
            raise Problem("url_not_allowed", str(error)) from None
    recovery = await services.store.replay(call.tenant, letter.id, actor=call.actor, now=services.now())
    return _recovered(call, letter, recovery)


@routes.post(
    "/{id}/skip", "Give it up, with a note, and release what waits behind it.", takes=SkipBody, answers=RecoveryShape
)
async def skip(call: Call) -> Response:
    services = call.services
    text = (call.read(SkipBody).note or "").strip()
    if not text:
        raise Problem("note_required", "a skipped event is never delivered: say why in `note`, which goes on record")
    views.checked_note(text)
    if is_row(call.params["id"]):
        return await inbox_letters.skip(call, text)
    letter = await _find(call)
    recovery = await services.store.skip(call.tenant, letter.id, note=text, actor=call.actor, now=services.now())
    return _recovered(call, letter, recovery)


def _recovered(call: Call, letter: DeadLetter, recovery: Recovery | None) -> Response:
    if recovery is None:
        raise Problem("not_dead", f"{letter.id} was replayed or skipped in the meantime; nothing was done by this call")
    call.services.wake(recovery.lane_id)
    call.services.live_stream.touch(call.tenant, recovery.endpoint_id, recovery.key)
    return answer(views.recovery(recovery, letter.id))


async def _find(call: Call) -> DeadLetter:
    letter = await call.services.store.dead_letter(call.tenant, call.params["id"])
    if letter is None:
        raise Problem("not_found", NO_LETTER)
    return letter


_OTHER_SIDE = {"sender": "inbox", "inbox": "sender"}
_OTHERS = {
    "sender": ("source", "account"),
    "inbox": ("endpoint", "key", "type", "reason", "http", "after", "before"),
}
"""The sides, and the filters that only the other one has."""
