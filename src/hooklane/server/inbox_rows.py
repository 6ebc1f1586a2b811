"""Which rows of the inbox does a call mean, and what is answered where there is none? Nothing is made or migrated."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from hooklane.errors import StoreRefused
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.inbox import Row, Search
from hooklane.server.call import Call, Param, Response, answer
from hooklane.server.inbox_actions import NO_ROW, HandlingsChanged
from hooklane.server.problem import Problem
from hooklane.server.schema_words import one_of
from hooklane.server.views import View
from hooklane.store.colocated_inbox import Change, Changed, ColocatedVerbs, Question
from hooklane.store.inbox import Flow
from hooklane.store.reads import PAGE_MAX, Page

T = TypeVar("T")
V = TypeVar("V")
Shown = Callable[[Row], View]

ACCOUNT = Param("account", "as the application's source says; all of them, unless given")
DRY_RUN = Param("dry_run", "1: tell what it would do, and do nothing", one_of(("0", "1")))
CHUNK = 25
"""Rows that are read at a time, payloads and all: a page of the longest takes tens of megabytes, not hundreds."""

_ID = re.compile(r"[1-9][0-9]{0,17}\Z", re.ASCII)


def is_row(id: str) -> bool:
    """Whether *id* is one of a row: a number, as `hooklane inbox ls` shows it. A sender's dead letter is `dlv_…`."""
    return _ID.match(id) is not None


def one(call: Call) -> Search:
    """The row that the path names; not found where `account` names another than the row's."""
    if not is_row(call.params["id"]):
        raise Problem("not_found", NO_ROW)
    return Search(ids=(int(call.params["id"]),), account=call.query.get("account"), limit=1)


async def find(call: Call) -> Row:
    wanted = one(call)
    rows = await ask_inbox(call, lambda verbs: verbs.rows(wanted))
    if not rows:
        raise Problem("not_found", NO_ROW)
    return rows[0]


async def page_of(call: Call, listing: str, wanted: Search, shown: Shown, *, newest: bool = False) -> Response:
    """The page of *wanted* that the call asks for, oldest first, or *newest* first."""
    cursor = call.cursor(listing)
    asked = replace(wanted, after=None if cursor is None else int(cursor), limit=call.limit())
    page = await _read(call, asked, shown, newest)
    return answer(call.listed(listing, page, page.items))


async def lines_of(call: Call, wanted: Search, shown: Shown) -> AsyncIterator[View]:
    """All rows of *wanted*, page by page, so that many never stand in memory."""
    after: int | None = None
    while True:
        page = await _read(call, replace(wanted, after=after, limit=PAGE_MAX), shown)
        for view in page.items:
            yield view
        if page.next is None:
            return
        after = int(page.next)


async def ask_inbox(call: Call, question: Question[T]) -> T | None:
    """What the inbox answers; None where there is none."""
    return await _of_inbox(call, call.services.store.ask_inbox, question)


async def _of_inbox(call: Call, verb: Callable[[V], Awaitable[T | None]], wanted: V) -> T | None:
    """The inbox in the server's database is the application's own, so it belongs to the tenant `default`: for any other
    there is none, nor for a caller who reaches the data of one tenant alone (`permission.py` keeps it from `/inbox`).
    """
    is_theirs = call.tenant == DEFAULT_TENANT and call.caller.tenant is None
    return await told_if_refused(verb(wanted)) if is_theirs else None


async def told_if_refused(answering: Awaitable[T]) -> T:
    """What the store answers; an inbox that it may not or cannot read is told as that."""
    try:
        return await answering
    except StoreRefused as error:
        raise Problem("inbox_refused", str(error)) from error


class _Undone(Exception):
    """Thrown inside a store to roll back what a dry run did; *done* says what would have come of it."""

    def __init__(self, done: HandlingsChanged) -> None:
        super().__init__("dry run")
        self.done = done


async def act_on_row(call: Call, change: Change[HandlingsChanged], verb: str) -> Response:
    """What became of a replay or a skip; of a dry run, what would: that is done in a transaction and rolled back."""

    def undone(verbs: ColocatedVerbs) -> Flow[Changed[HandlingsChanged]]:
        changed = yield from change(verbs)
        raise _Undone(changed.result)

    is_dry_run = call.word("dry_run", ("0", "1"), "0") == "1"
    try:
        done = await _of_inbox(call, call.services.store.change_inbox, undone if is_dry_run else change)
    except _Undone as told:
        done = told.done
    if done is None:
        raise Problem("not_found", NO_ROW)
    message = done.row.message
    return answer(
        {
            "id": str(done.row.id),
            "side": "inbox",
            "source": message.source,
            "event_id": message.event_id,
            "key": message.key,
            "seq": message.seq,
            verb: done.handlings,
            **({"dry_run": True} if is_dry_run else {}),
        }
    )


async def _read(call: Call, wanted: Search, shown: Shown, newest: bool = False) -> Page[View]:
    return await ask_inbox(call, lambda verbs: _page(verbs, wanted, shown, newest)) or Page([], None)


def _page(verbs: ColocatedVerbs, wanted: Search, shown: Shown, newest: bool) -> Flow[Page[View]]:
    found: list[View] = []
    last = wanted.after
    find = verbs.newest_rows if newest else verbs.rows
    while len(found) <= wanted.limit:  # one too many tells that there is more
        most = min(CHUNK, wanted.limit + 1 - len(found))
        rows = yield from find(replace(wanted, after=last, limit=most))
        found += [shown(row) for row in rows]
        if len(rows) < most:
            return Page(found, None)
        last = rows[-1].id
    items = found[: wanted.limit]
    return Page(items, items[-1]["id"])
