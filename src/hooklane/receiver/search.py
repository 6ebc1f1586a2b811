"""Which rows of the inbox? A search as an application writes it, and the rows that match it, page by page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.inbox import Row, RowId, Search
from hooklane.model.message import Status
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.steps import transaction

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

PAGE = 200

Ids = RowId | Collection[RowId] | None
"""One row, several, or those that a filter finds."""


class Filter(TypedDict, total=False):
    """Which rows: the fields of `Search`; every one narrows."""

    source: str | None
    account: str | None
    status: Status | str | None
    type: str | None
    key: str | None
    event_id: str | None
    received_from: Instant | None
    received_until: Instant | None
    after: RowId | None
    limit: int


class Pages:
    """The rows that match a search, page by page, up to its limit."""

    def __init__(self, inbox: Inbox, search: Search) -> None:
        self._inbox = inbox
        self._search = search
        self._left = search.limit
        self._page: list[Row] = []

    def next(self) -> Plan[Row | None]:
        """The next row; None after the last one."""
        if not self._page:
            if self._left <= 0:
                return None
            page = replace(self._search, limit=min(PAGE, self._left))
            self._page = yield Run(transaction(self._inbox.store.rows(page)), reads=True)
            if not self._page:
                return None
            self._left -= len(self._page)
            self._search = replace(self._search, after=self._page[-1].id)
        return self._page.pop(0)


def still_matches(row: Row, search: Search) -> bool:
    """Whether what was read of *row* is what was asked for: it is read after it was found, and another may have
    skipped in between what is to be replayed, or the other way round."""
    handlings = (each.status for each in row.handlings if search.handler in (None, each.handler))
    return search.status is None or search.status in (row.status, *handlings)


def as_search(ids: Ids, given: Mapping[str, object]) -> Search:
    """One row id, several, or a filter; at least one of them, so that an empty call does not replay everything."""
    search: dict[str, Any] = {**given}
    rows: tuple[RowId, ...] | None = None
    if ids is not None:
        rows = (ids,) if isinstance(ids, int | str) else tuple(ids)
        search = {"limit": max(1, len(rows))} | search
    if rows is None and not search:
        raise UsageError("say which rows: an id, several ids, or a filter such as source=…, status=…, received_from=…")
    if "status" in search and search["status"] is not None:
        search["status"] = Status(search["status"])
    return Search(ids=rows, **{"limit": 1_000_000} | search)
