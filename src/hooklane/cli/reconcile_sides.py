"""Whom does `hooklane reconcile` ask? The sender through its API or its database, the receiver through its store or a
server that shows it: bounded questions, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.inbox import opened
from hooklane.core.reconcile import NOT_APPLIED, InLine, Received
from hooklane.model.database_url import shown
from hooklane.model.inbox import Identity, Row, Track, overall
from hooklane.model.lane import LaneState
from hooklane.model.message import DEFAULT_ACCOUNT, Status
from hooklane.store.inbox import Flow

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

PAGE = 200
OWING = "blocked,retrying,active,paused"
T = TypeVar("T")


def is_server(url: str) -> bool:
    """Whether *url* is a server to call, and not a database to open."""
    return "://" not in url or url.startswith(("http://", "https://"))


class Delivered(NamedTuple):
    key: str | None
    seq: int | None
    event_id: str


class SenderSide:
    """One endpoint of a sender: the one that leads to the receiver."""

    def __init__(self, caller: Caller, endpoint: str | None) -> None:
        self._caller = caller
        self.endpoint = self._chosen(endpoint)
        self._id = str(self.endpoint["id"])

    def _chosen(self, name: str | None) -> dict[str, Any]:
        there: list[dict[str, Any]] = self._caller.get("/api/v1/endpoints")["items"]
        if name is not None:
            wanted = self._caller.endpoint_id(name)
            there = [one for one in there if one["id"] == wanted]
        if not there:
            said = f"the sender has no endpoint {name}" if name else "the sender has no endpoint"
            raise CallFailed(f"{said}: see `hooklane endpoints ls`", Exit.NOT_FOUND)
        if len(there) > 1:
            names = ", ".join(one["name"] or one["id"] for one in there[:5])
            raise CallFailed(
                f"the sender has {len(there)} endpoints ({names} …): say with --endpoint which one is this receiver",
                Exit.USAGE,
            )
        return there[0]

    def delivered(self, after: str, key: str | None, most: int) -> Iterator[list[Delivered]]:
        """Events on record as delivered, newest first, a page at a time, and at most so many."""
        query = {"endpoint": self._id, "state": "delivered", "after": after, "key": key}
        cursor, left = None, most
        while left > 0:
            page = self._caller.get("/api/v1/events", {**query, "limit": min(PAGE, left), "cursor": cursor})
            there = [
                Delivered(one["key"], one["seq"], one["event"])
                for event in page["items"]
                for one in event["deliveries"]
                if one["endpoint"] == self._id and one["state"] == "delivered"
            ]
            yield there
            left, cursor = left - len(page["items"]), page["next"]
            if cursor is None:
                return

    def owing(self, key: str | None) -> Iterator[tuple[str, InLine]]:
        """Lanes that still have something to deliver."""
        cursor = None
        while True:
            query = {"endpoint": self._id, "state": OWING, "q": key, "limit": PAGE, "cursor": cursor}
            page = self._caller.get("/api/v1/lanes", query)
            yield from ((one["key"], _line(one)) for one in page["items"] if key in (None, one["key"]))
            cursor = page["next"]
            if cursor is None:
                return

    def lane(self, key: str) -> InLine | None:
        """The lane of *key*; None where the endpoint has none."""
        try:
            return _line(self._caller.get(f"/api/v1/lanes/{segment(self._id)}/{segment(key)}"))
        except CallFailed as failure:
            if failure.exit is Exit.NOT_FOUND:
                return None
            raise


def _line(lane: dict[str, Any]) -> InLine:
    return InLine(
        head=lane["head"],
        tail=lane["tail"],
        state=LaneState(lane["state"]),
        reason=lane["reason"],
        dead_letter=lane["dead_letter"],
    )


class ReceiverSide(Protocol):
    """What a receiver is asked."""

    def sources(self) -> set[str]:
        """The sources of which it has rows."""

    def owed(self, key: str | None, most: int) -> Iterator[tuple[str | None, Received]]:
        """Rows whose effect is not there, with their keys; at most so many of each status."""

    def statuses(self, delivered: Sequence[Delivered]) -> dict[str, Status]:
        """The status of each event that it has a row of."""

    def applied(self, key: str) -> int | None:
        """The cursor of *key*: the last seq that every handler which keeps the sequence has applied."""

    @property
    def remembers_ms(self) -> int | None:
        """For how many ms the receiver certainly remembers a settled event; None: until it is pruned."""


class StoreSide:
    """A receiver by its store."""

    def __init__(self, inbox: Inbox, source: str) -> None:
        self._inbox = inbox
        self._source = source
        counts = inbox.stats().counts
        self._sources = {one.source for one in counts}
        self._handlers = sorted({one.handler for one in counts if one.source == source and one.handler})

    @property
    def remembers_ms(self) -> int | None:
        return self._inbox.store.capabilities.expires_ms

    def sources(self) -> set[str]:
        return self._sources

    def owed(self, key: str | None, most: int) -> Iterator[tuple[str | None, Received]]:
        seen = set[str]()
        for status in NOT_APPLIED:
            after, left = None, most
            while left > 0:
                rows = self._inbox.rows(source=self._source, status=status, key=key, after=after, limit=min(PAGE, left))
                for row in rows:
                    if str(row.id) not in seen and row.overall in NOT_APPLIED:
                        seen.add(str(row.id))
                        yield row.message.key, _received(row)
                if len(rows) < PAGE:
                    break
                after, left = rows[-1].id, left - len(rows)

    def statuses(self, delivered: Sequence[Delivered]) -> dict[str, Status]:
        ids = [one.event_id for one in delivered]
        known = self._read(self._inbox.store.known([Identity(self._source, DEFAULT_ACCOUNT, id) for id in ids]))
        found = {
            id: overall(one.status, [each.status for each in one.handlings])
            for id, one in zip(ids, known, strict=True)
            if one is not None
        }
        for id in ids:
            # A source may keep its events under accounts: then they are looked for one by one.
            if id not in found and (rows := self._inbox.rows(source=self._source, event_id=id, limit=1)):
                found[id] = rows[0].overall
        return found

    def applied(self, key: str) -> int | None:
        tracks = [Track(self._source, DEFAULT_ACCOUNT, handler, key) for handler in self._handlers]
        there = [self._read(self._inbox.store.applied(track)) for track in tracks]
        return min((seq for seq in there if seq is not None), default=None)

    def _read(self, flow: Flow[T]) -> T:
        from hooklane.receiver.runner import Plan, Run
        from hooklane.receiver.steps import transaction

        def plan() -> Plan[T]:
            result: T = yield Run(transaction(flow), reads=True)
            return result

        return self._inbox.runner.run(plan())


def _received(row: Row) -> Received:
    error = next((each.error for each in row.handlings if each.status is row.overall), None)
    return Received(
        row=str(row.id),
        event_id=row.message.event_id,
        seq=row.message.seq,
        status=row.overall,
        error=error or row.reason,
    )


class ServerSide:
    """A receiver whose inbox is in the database of a hooklane server, by that server's API."""

    remembers_ms = None

    def __init__(self, caller: Caller, source: str) -> None:
        self._caller = caller
        self._source = source
        stats = caller.get("/api/v1/inbox/stats")
        if stats["store"] is None:
            raise CallFailed("this server shows no inbox: give the URL of the inbox's store", Exit.NOT_FOUND)
        self._sources = set(stats["sources"])

    def sources(self) -> set[str]:
        return self._sources

    def owed(self, key: str | None, most: int) -> Iterator[tuple[str | None, Received]]:
        seen = set[str]()
        for status in NOT_APPLIED:
            cursor, left = None, most
            while left > 0:
                page = self._page(status=str(status), key=key, limit=min(PAGE, left), cursor=cursor)
                for one in page["items"]:
                    if one["id"] not in seen and one["status"] in NOT_APPLIED:
                        seen.add(one["id"])
                        row = Received(
                            row=one["id"],
                            event_id=one["event_id"],
                            seq=one["seq"],
                            status=Status(one["status"]),
                            error=one["error"],
                        )
                        yield one["key"], row
                left, cursor = left - len(page["items"]), page["next"]
                if cursor is None:
                    break

    def statuses(self, delivered: Sequence[Delivered]) -> dict[str, Status]:
        found: dict[str, Status] = {}
        for one in delivered:
            if (row := self._first(event_id=one.event_id)) is not None:
                found[one.event_id] = Status(row["status"])
        return found

    def applied(self, key: str) -> int | None:
        row = self._first(key=key)
        if row is None:
            return None
        seq = self._caller.get(f"/api/v1/inbox/{segment(row['id'])}")["stored_seq"]
        return None if seq is None else int(seq)

    def _first(self, **query: object) -> dict[str, Any] | None:
        """The oldest row that fits; a page may be empty before the last one."""
        items = self._caller.page("/api/v1/inbox", {"source": self._source, "limit": 1, **query})["items"]
        return items[0] if items else None

    def _page(self, **query: object) -> Any:
        return self._caller.get("/api/v1/inbox", {"source": self._source, **query})


@contextmanager
def sender_side(url: str, endpoint: str | None) -> Iterator[SenderSide]:
    if not is_server(url) and not url.startswith(("sqlite:", "postgresql:", "postgres:")):
        raise CallFailed(
            f"--sender is a server (http://…) or its database (sqlite:///…, postgresql://…), got {shown(url)}",
            Exit.USAGE,
        )
    server, db = (url, None) if is_server(url) else (None, url)
    with calling(server, db) as caller:
        yield SenderSide(caller, endpoint)


@contextmanager
def receiver_side(url: str, source: str) -> Iterator[ReceiverSide]:
    if url.startswith("memory:"):
        raise CallFailed("a receiver in the memory of another process cannot be looked at", Exit.USAGE)
    if is_server(url):
        with calling(url, None) as caller:
            yield ServerSide(caller, source)
    else:
        with opened(url) as inbox:
            yield StoreSide(inbox, source)
