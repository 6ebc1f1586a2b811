"""The receiver's side: the inbox that an application keeps in this server's database, if it keeps one there."""

from __future__ import annotations

import msgspec

from hooklane.model.audit import Act
from hooklane.model.clock import rfc3339
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.inbox import Row, Search, Track
from hooklane.model.message import Status
from hooklane.server import inbox_views
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer
from hooklane.server.inbox_actions import replay_row
from hooklane.server.inbox_rows import ACCOUNT, DRY_RUN, act_on_row, ask_inbox, find, one, page_of, told_if_refused
from hooklane.server.schema_words import TIME, one_of
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_inbox import InboxStats, RowShape, Sources, WholeRow
from hooklane.server.shapes_of_recovery import RecoveryShape
from hooklane.store.inbox import Flow, InboxVerbs

LISTINGS = {"oldest": "inbox", "newest": "inbox newest"}
"""By order: what a cursor belongs to."""
ORDERS = tuple(LISTINGS)


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which of its handlers is to see it again; all of them, unless given."""

    handler: str | None = None


_FILTER = (
    Param("source", "exact name of a source"),
    Param("status", f"rows that are so at any of their handlers: one of {', '.join(Status)}", one_of(Status)),
    Param("handler", "exact name of a handler; with status: rows that are so at this one"),
    Param("type", "exact type"),
    Param("key", "exact key"),
    Param("event_id", "exact event id, as the provider gave it"),
    ACCOUNT,
    Param("after", "received at or after this time", TIME),
    Param("before", "received before this time", TIME),
)
routes = Routes("inbox", "/api/v1/inbox")


@routes.get(
    "",
    "What was received, by the order of arrival; nothing where no inbox is in the server's database.",
    query=(*_FILTER, Param("order", "oldest or newest first; oldest unless given", one_of(ORDERS)), *PAGING),
    answers=ListShape[RowShape],
)
async def search(call: Call) -> Response:
    query = call.query
    status = call.word("status", Status, None)
    wanted = Search(
        source=query.get("source"),
        account=query.get("account"),
        status=None if status is None else Status(status),
        handler=query.get("handler"),
        type=query.get("type"),
        key=query.get("key"),
        event_id=query.get("event_id"),
        received_from=call.instant("after"),
        received_until=call.instant("before"),
    )
    order = call.word("order", ORDERS, "oldest")
    return await page_of(call, LISTINGS[order], wanted, inbox_views.row, newest=order == "newest")


@routes.get(
    "/{id}",
    "A row with its payload (`payload_encoding`: json or base64), headers, and each handler's errors.",
    query=(ACCOUNT,),
    answers=WholeRow,
)
async def show(call: Call) -> Response:
    """A row, with the proof of what became of it: the first receipt of its id, and the seq that was applied last."""
    row = await find(call)
    wanted = Search(source=row.message.source, account=row.message.account, event_id=row.message.event_id, limit=2)
    stale = next((one for one in row.handlings if one.key is not None and one.seq is not None), None)

    def proof(verbs: InboxVerbs) -> Flow[tuple[Row | None, int | None]]:
        rows = yield from verbs.rows(wanted)
        first = rows[0] if rows and rows[0].id != row.id else None
        if stale is None or stale.key is None:
            return first, None
        track = Track(row.message.source, row.message.account, stale.handler, stale.key)
        return first, (yield from verbs.applied(track))

    found = await ask_inbox(call, proof)
    first, applied = (None, None) if found is None else found
    receipt = None
    if first is not None:
        receipt = {"id": str(first.id), "received_at": rfc3339(first.received_at), "status": str(first.overall)}
    proven = {"first_receipt": receipt, "stored_seq": applied, "incoming_seq": row.message.seq}
    return answer({**inbox_views.whole(row), **proven})


@routes.get("/sources", "Each source: what came, what became of it, and what is kept; as of `as_of`.", answers=Sources)
async def sources(call: Call) -> Response:
    """By source, from the store and from an inbox of this process; counts may be a few seconds old."""
    if call.tenant != DEFAULT_TENANT:
        return answer({"items": [], "next": None, "as_of": rfc3339(call.services.now())})
    made = await told_if_refused(call.services.inbox_sources.of(""))
    return answer({"items": made.value, "next": None, "as_of": rfc3339(made.as_of)})


@routes.get(
    "/stats", "How much is in which status, by source and handler, and how old the oldest owed is.", answers=InboxStats
)
async def stats(call: Call) -> Response:
    services = call.services
    counts = await ask_inbox(call, lambda verbs: verbs.counts())
    store = None if counts is None else services.store.inbox_kind
    return answer(inbox_views.stats(counts or (), store, services.now()))


@routes.post(
    "/{id}/replay",
    "Owe it to its handlers again, attempts from zero; a worker of the application runs them.",
    takes=ReplayBody,
    query=(ACCOUNT, DRY_RUN),
    answers=RecoveryShape,
)
async def replay(call: Call) -> Response:
    """Owe it to its handlers again, as `hooklane inbox replay` does; a worker of the application runs them."""
    handler = call.read(ReplayBody).handler if call.body else None
    wanted, now = one(call), call.services.now()

    def record(row: Row) -> Act:
        about = f"{row.message.source} {row.message.event_id}"
        return call.act("inbox.replayed", str(row.id), about if handler is None else f"{about} at {handler}")

    return await act_on_row(call, lambda verbs: replay_row(verbs, wanted, handler, now, record), "replayed")
