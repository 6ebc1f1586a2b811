"""The inbox that an application keeps in the sender's own database: looked at and mended by people, never made here.

A question or a change is a flow of the inbox's own verbs (`store/inbox.py`); the sender's store runs it on its own
connections, so that a server has no second pool, no second writer, and one commit for a change and its record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hooklane.errors import StoreRefused
from hooklane.model.audit import Act
from hooklane.model.inbox import Row, Search
from hooklane.store.inbox import Flow, InboxVerbs

COMPONENT = "inbox"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """What came of a change, and what goes on record with it; no *act*, where nothing changed."""

    result: T
    act: Act | None = None


class ColocatedVerbs(InboxVerbs, Protocol):
    """The inbox's verbs, and what only those who look at it need."""

    def newest_rows(self, search: Search) -> Flow[list[Row]]:
        """Rows that match, newest first; `after` is the cursor of a page: rows with a smaller id only."""


Question = Callable[[ColocatedVerbs], Flow[T]]
Change = Callable[[ColocatedVerbs], Flow[Changed[T]]]
"""Makes the flow anew for each try: a transaction that lost a race runs again."""


class ColocatedInbox(Protocol):
    """What a sender's store can do with the inbox beside it. Tables that are missing or old are left as they are."""

    @property
    def inbox_kind(self) -> str:
        """The name of the database, as an inbox's `Capabilities` has it."""

    async def ask_inbox(self, question: Question[T]) -> T | None:
        """What *question* finds, all of it on one snapshot; None where no inbox is."""

    async def change_inbox(self, change: Change[T]) -> T | None:
        """Make *change* and put its act on record in the same commit; None where no inbox is."""


def is_there(version: int, newest: int) -> bool:
    """Whether there is an inbox, by the version of its tables; `StoreRefused` where our statements do not fit them."""
    if version in (0, newest):
        return version == newest
    if version > newest:
        remedy = "upgrade the server"
    else:
        remedy = "start the application with the server's version of hooklane, which brings its tables up to date"
    raise StoreRefused(f"the inbox has schema {version}, this hooklane's is {newest}: {remedy}; it was not touched")
