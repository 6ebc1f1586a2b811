"""Dead letters: look at what died, note why, send it again, or give it up and release its lane.

An id says whose letter it is: the sender's are `dlv_…`, a row of the inbox is a number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from hooklane.sender.egress import UrlNotAllowed
from hooklane.server import views
from hooklane.server.api import inbox_letters
from hooklane.server.audit_acts import act_of
from hooklane.server.call import NDJSON, PAGING, Call, Param, Response, Route, answer
from hooklane.server.inbox_rows import is_row
from hooklane.server.problem import Problem
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import DeadLetterShape, RecoveryShape, WholeDeadLetter
from hooklane.store.outbox import Recovery
from hooklane.store.reads import PAGE_MAX, DeadLetter

NO_LETTER = "there is no dead letter with this id: it was replayed or skipped, or never existed"


class NoteBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a person wants to remember about a dead letter."""

    note: str


class SkipBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why an event is given up."""

    note: str | None = None


async def search(call: Call) -> Response:
    services, query = call.services, call.query
    side = query.get("side", "sender")
    if side not in _OTHERS:
        raise Problem("invalid_parameter", f"side must be sender or inbox, got {side[:40]!r}")
    if foreign := [name for name in _OTHERS[side] if name in query]:
        raise Problem(
            "invalid_parameter", f"{foreign[0]} is not a filter for side={side}; use it with side={_OTHER_SIDE[side]}"
        )
    if side == "inbox":
        return await inbox_letters.search(call)
    endpoint_id = query.get("endpoint")
    if call.wants_lines():
        return Response(200, media=NDJSON, stream=_lines(call, endpoint_id))
    cursor = call.cursor("dead-letters")
    page = await services.store.dead_letters(call.tenant, endpoint_id=endpoint_id, cursor=cursor, limit=call.limit())
    return answer(services.sealed(call, "dead-letters", page, [views.dead_letter(letter) for letter in page.items]))


async def _lines(call: Call, endpoint_id: str | None) -> AsyncIterator[bytes]:
    """All of them, page by page, so that an export of many never stands in memory."""
    cursor: str | None = None
    while True:
        page = await call.services.store.dead_letters(
            call.tenant, endpoint_id=endpoint_id, cursor=cursor, limit=PAGE_MAX
        )
        if page.items:
            yield b"".join(msgspec.json.encode(views.dead_letter(letter)) + b"\n" for letter in page.items)
        cursor = page.next
        if cursor is None:
            return


async def show(call: Call) -> Response:
    if is_row(call.params["id"]):
        return await inbox_letters.show(call)
    letter = await _find(call)
    event = await call.services.store.event(call.tenant, letter.event_id)
    view = views.dead_letter(letter)
    view["data"] = None if event is None else msgspec.Raw(event.data)
    return answer(view)


async def note(call: Call) -> Response:
    text = call.read(NoteBody).note
    views.checked_note(text)
    if is_row(call.params["id"]):
        return await inbox_letters.note(call)
    noted = act_of(call, "dead_letter.noted", call.params["id"], text)
    if not await call.services.store.set_note(call.tenant, call.params["id"], text, act=noted):
        raise Problem("not_found", NO_LETTER)
    return answer(views.dead_letter(await _find(call)))


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
_OTHERS = {"sender": ("source", "account"), "inbox": ("endpoint",)}
"""The sides, and the filters that only the other one has."""

_FILTER = (
    Param("side", "sender (unless given) or inbox: what the handlers of this database's inbox gave up"),
    Param("endpoint", "id of an endpoint; sender only"),
    Param("source", "exact name of a source; inbox only"),
    Param("account", "as the application's source says; inbox only"),
)

ROUTES = (
    Route(
        "GET",
        "/api/v1/dead-letters",
        search,
        "What died; with `Accept: application/x-ndjson` all of it, one a line.",
        query=(*_FILTER, *PAGING),
        tag="dead letters",
        answers=ListShape[DeadLetterShape],
    ),
    Route(
        "GET",
        "/api/v1/dead-letters/{id}",
        show,
        "A dead letter with its data (`dlv_…`), or a dead row of the inbox with its payload (a number).",
        tag="dead letters",
        answers=WholeDeadLetter,
    ),
    Route(
        "PATCH",
        "/api/v1/dead-letters/{id}",
        note,
        "Write a note on it; a row of the inbox has no place for one.",
        takes=NoteBody,
        tag="dead letters",
        answers=DeadLetterShape,
    ),
    Route(
        "POST",
        "/api/v1/dead-letters/{id}/replay",
        replay,
        "Send it again: same id, seq and bytes, attempts from zero; or run an inbox row's dead handlers again.",
        tag="dead letters",
        answers=RecoveryShape,
    ),
    Route(
        "POST",
        "/api/v1/dead-letters/{id}/skip",
        skip,
        "Give it up, with a note, and release what waits behind it.",
        takes=SkipBody,
        tag="dead letters",
        answers=RecoveryShape,
    ),
)
