"""Stored events once more: replay owes them to their handlers again, a shadow run rolls back, skip gives them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hooklane.errors import Overtaken, UsageError
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status
from hooklane.receiver.flows.maintain import Shadow, reopen, shadow, skip, skip_row
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.search import Pages, still_matches
from hooklane.receiver.source import Handler
from hooklane.store.inbox import Flow

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

GIVEN_UP = (Status.DEAD, Status.FAILED, Status.HELD)
"""What `skip` takes of a row; what is pending, of a handler that is gone perhaps, must be asked for by its status."""


class Replays:
    """Replay, shadow run and skip of the rows of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def replay(self, search: Search, handler: str | None) -> Plan[int]:
        """Owe the rows that match to their handlers again, by a status only what is in it; how many handlings."""
        reopened = 0
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            # A row that is asked for by its id says that its payload is gone; a filter passes it over.
            if still_matches(row, search) and (search.ids is not None or not row.purged):
                reopened += yield from _unless_overtaken(
                    reopen(self._inbox.context, row, self._handlers_of(row), handler, search.status)
                )
            row = yield from pages.next()
        self._inbox.arrived.set()
        return reopened

    def shadow(self, search: Search, handler: str | None) -> Plan[list[Shadow]]:
        """Run the handlers on the rows that match, each in a transaction that is rolled back."""
        store = self._inbox.store.capabilities
        if not store.atomic:
            raise UsageError(
                f"a shadow replay needs writes that can be rolled back, and an inbox on {store.name} has none"
            )
        shadows: list[Shadow] = []
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for each in self._handlers_of(row):
                is_meant = handler in (None, each.name) and search.status in (None, row.status_for(each.name))
                if is_meant and each.wants(row.message.type) and not row.purged:
                    event = each.event(
                        row.message,
                        row.received_at,
                        can_send=self._inbox.can_send,
                        variant=row.variant,
                        headers=row.headers,
                    )
                    flow = shadow(row, each, event)
                    shadows.append((yield Run(flow, each.is_async)))
            row = yield from pages.next()
        return shadows

    def skip(self, search: Search, handler: str | None, note: str) -> Plan[int]:
        """Give up the dead, failed or held handlings of the rows that match, by a status those in it, and rows that are
        dead themselves; how many."""
        statuses = GIVEN_UP if search.status is None else (search.status,)
        skipped = 0
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for handling in row.handlings if still_matches(row, search) else ():
                if handler in (None, handling.handler) and handling.status in statuses:
                    skipped += yield from _unless_overtaken(skip(self._inbox.context, row, handling, note))
            if handler is None and row.status is Status.DEAD and Status.DEAD in statuses:
                skipped += yield from _unless_overtaken(skip_row(self._inbox.context, row, note))
            row = yield from pages.next()
        self._inbox.arrived.set()
        return skipped

    def _handlers_of(self, row: Row) -> list[Handler]:
        """The handlers of the row's source; none in a process that does not have them, such as the command line."""
        source = self._inbox.sources.get(row.message.source)
        return [] if source is None else list(source.handlers.values())


def _unless_overtaken(act: Flow[int]) -> Plan[int]:
    """How many handlings *act* has changed; none where another has decided meanwhile, and the store found it late."""
    try:
        changed: int = yield Run(act)
    except Overtaken:
        return 0
    return changed
