"""Dead letters of the receiver's side: rows of the inbox that a handler gave up, or that were poison from the start."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from hooklane.model.audit import Act
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status
from hooklane.server import inbox_views
from hooklane.server.call import NDJSON, Call, Response, answer
from hooklane.server.inbox_actions import replay_letter, skip_letter
from hooklane.server.inbox_rows import act_on_row, find, lines_of, one, page_of
from hooklane.server.problem import Problem


async def search(call: Call) -> Response:
    """The oldest first: it has waited longest."""
    wanted = Search(status=Status.DEAD, source=call.query.get("source"), account=call.query.get("account"))
    if call.wants_lines():
        return Response(200, media=NDJSON, stream=_lines(call, wanted))
    return await page_of(call, "dead-letters", wanted, inbox_views.letter)


async def _lines(call: Call, wanted: Search) -> AsyncIterator[bytes]:
    async for view in lines_of(call, wanted, inbox_views.letter):
        yield msgspec.json.encode(view) + b"\n"


async def show(call: Call) -> Response:
    row = await find(call)
    if row.overall is not Status.DEAD:
        raise Problem("not_found", "there is no dead letter with this id: the row is not dead")
    whole = inbox_views.whole(row)
    return answer({**whole, **inbox_views.letter(row), "handlers": whole["handlers"]})


async def note(call: Call) -> Response:
    await show(call)  # what is not there is not found, whatever is asked of it
    raise Problem("wrong_side", "a row of the inbox cannot have a note; only the sender's dead letters (dlv_…) can")


async def replay(call: Call) -> Response:
    """Owe it again to the handlers that gave it up."""
    wanted, now = one(call), call.services.now()

    def record(row: Row) -> Act:
        return call.act("inbox.replayed", str(row.id), f"{row.message.source} {row.message.event_id}")

    return await act_on_row(call, lambda verbs: replay_letter(verbs, wanted, now, record), "replayed")


async def skip(call: Call, text: str) -> Response:
    """Give it up for good; *text* says why, and is kept with the row and on record."""
    wanted, now = one(call), call.services.now()

    def record(row: Row) -> Act:
        return call.act("inbox.skipped", str(row.id), text)

    return await act_on_row(call, lambda verbs: skip_letter(verbs, wanted, text, now, record), "skipped")
