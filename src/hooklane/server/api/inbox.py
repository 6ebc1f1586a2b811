"""The receiver's side: the inbox that an application keeps in this server's database, if it keeps one there."""

from __future__ import annotations

import msgspec

from hooklane.model.audit import Act
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status
from hooklane.server import inbox_views
from hooklane.server.acts import act_of
from hooklane.server.call import PAGING, Call, Param, Response, Route, answer
from hooklane.server.inbox_rows import TENANT, asked, find, mended, one, page_of
from hooklane.server.mending import replay_row
from hooklane.server.problem import Problem


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which of its handlers is to see it again; all of them, unless given."""

    handler: str | None = None


async def search(call: Call) -> Response:
    query = call.query
    status = query.get("status")
    if status is not None and status not in tuple(Status):
        raise Problem("invalid_parameter", f"status must be one of {', '.join(Status)}, got {status[:40]!r}")
    wanted = Search(
        source=query.get("source"),
        tenant=query.get("tenant"),
        status=None if status is None else Status(status),
        handler=query.get("handler"),
        type=query.get("type"),
        key=query.get("key"),
        event_id=query.get("event_id"),
        received_from=call.instant("after"),
        received_until=call.instant("before"),
    )
    return await page_of(call, "inbox", wanted, inbox_views.row)


async def show(call: Call) -> Response:
    return answer(inbox_views.whole(await find(call)))


async def stats(call: Call) -> Response:
    gateway = call.gateway
    counts = await asked(gateway.store.ask_inbox(lambda verbs: verbs.counts()))
    store = None if counts is None else gateway.store.inbox_kind
    return answer(inbox_views.stats(counts or (), store, gateway.now()))


async def replay(call: Call) -> Response:
    """Owe it to its handlers again, as `hooklane inbox replay` does; a worker of the application runs them."""
    handler = call.read(ReplayBody).handler if call.body else None
    wanted, now = one(call), call.gateway.now()

    def record(row: Row) -> Act:
        about = f"{row.message.source} {row.message.event_id}"
        return act_of(call, "inbox.replayed", str(row.id), about if handler is None else f"{about} at {handler}")

    outcome = await asked(
        call.gateway.store.change_inbox(lambda verbs: replay_row(verbs, wanted, handler, now, record))
    )
    return mended(outcome, "replayed")


_FILTER = (
    Param("source", "exact name of a source"),
    Param("status", f"rows that are so at any of their handlers: one of {', '.join(Status)}"),
    Param("handler", "exact name of a handler; with status: rows that are so at this one"),
    Param("type", "exact type"),
    Param("key", "exact key"),
    Param("event_id", "exact event id, as the provider gave it"),
    TENANT,
    Param("after", "received at or after this time"),
    Param("before", "received before this time"),
)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/inbox",
        run=search,
        query=(*_FILTER, *PAGING),
        summary="What was received, oldest first; nothing where no inbox is in the server's database.",
        tag="inbox",
    ),
    Route(
        method="GET",
        path="/api/v1/inbox/stats",
        run=stats,
        summary="How much is in which status, by source and handler, and how old the oldest owed is.",
        tag="inbox",
    ),
    Route(
        method="GET",
        path="/api/v1/inbox/{id}",
        run=show,
        query=(TENANT,),
        summary="A row with its payload (`payload_encoding`: json or base64), headers, and each handler's errors.",
        tag="inbox",
    ),
    Route(
        method="POST",
        path="/api/v1/inbox/{id}/replay",
        run=replay,
        takes=ReplayBody,
        query=(TENANT,),
        summary="Owe it to its handlers again, attempts from zero; a worker of the application runs them.",
        tag="inbox",
    ),
)
