"""Receiving on DynamoDB: a row is a conditional write, and that is the dedup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooklane.model.clock import Instant
from hooklane.model.inbox import Identity, Known, NewHandling, NewRow, RowId, Track
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.base import META, After, Base
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.items import CLASSES, Item, plain, typed, typed_item
from hooklane.store.dynamodb.session import Api, Many, Refused
from hooklane.store.dynamodb.table import Table
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer, Claim, State
from hooklane.store.without_tx.names import digest_name, identity_name, track_name


class Receiving(Base):
    """The verbs that write rows."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._last_place = 0
        self._pairs: set[str] = set()

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        buffer: Buffer = yield State()
        ids: list[RowId | None] = [None] * len(rows)
        yield from self._note_pairs(rows)
        planned: dict[str, tuple[int, str, list[Item]]] = {}
        for number, row in enumerate(rows):
            name = identity_name(row.identity)
            if name in planned:
                continue  # of two copies in one batch the first counts
            id = self._new_id(row.received_at, name)
            places = yield from self._places(row)
            tracks = {each.handler: track_name(_track(row, each)) for each in row.handlings if each.key is not None}
            ttl = (row.received_at + self._table.ttl_ms) // 1000
            planned[name] = (number, id, shapes.row_items(row, id, tracks, places, ttl, buffer.token))
        plans = list(planned.values())
        answers = yield Many([self._inserting(rows[number], parts) for number, _, parts in plans])
        copies: list[Api] = []
        for (number, id, parts), answer in zip(plans, answers, strict=True):
            there = plain(answer.item) if isinstance(answer, Refused) else None
            if there is not None and there.get("x") != buffer.token:
                if CLASSES.get(Status(there.get("hs", "pending"))) is not None:
                    # The request that is answered now relies on it: it is not taken back any more.
                    seen = Change(shapes.row_key(id), assign={"k": True}).when("attribute_exists({pk})")
                    copies.append(self._alone(seen))
                continue
            ids[number] = id
            buffer.inserted[id] = parts
            for part in parts:
                if part.get("hf"):
                    buffer.claims[id, part["hh"]] = Claim(part["hf"], where=part | {"src": rows[number].message.source})
        if copies:
            yield Many(copies)
        return ids

    def _inserting(self, row: NewRow, parts: list[Item]) -> Api:
        """The call that writes a row unless it is there; one whose time is over does not count as there."""
        changes = Changes()
        for part in parts:
            change = changes.of(part)
            change.put = part
            if part["sk"] == "row":
                change.when("attribute_not_exists({pk}) OR {ttl} < :now", now=row.received_at // 1000)
            if "pn" in part and "ipk" in part:
                self._await(changes, part, row.message.account)
        written = [change.params(self.table) for change in changes]
        written[0][1]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if len(written) == 1:
            return Api("put_item", written[0][1])
        return Api("transact_write_items", {"TransactItems": [{kind: params} for kind, params in written]})

    def _places(self, row: NewRow) -> Flow[dict[str, int]]:
        """Numbers for thin events, counted before they are stored: a fetch that begins later covers them."""
        thin = [each.handler for each in row.handlings if each.key is not None and each.seq is None]
        if not thin:
            return {}
        params = Change(META | {"sk": "counter"}, add={"n": 1}).params(self.table)[1] | {"ReturnValues": "UPDATED_NEW"}
        answer = yield Api("update_item", params)
        place = int(plain(answer["Attributes"])["n"])
        return dict.fromkeys(thin, place)

    def _new_id(self, received_at: Instant, name: str) -> str:
        # Time first, so that ids sort by age; within a process each is larger than the one before.
        with self._lock:
            self._last_place = max(self._last_place + 1, received_at * 1000)
            return f"{self._last_place:0{shapes.PLACE_DIGITS}d}-{name}"

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        found = yield from self._parts([identity_name(identity) for identity in identities], payload=False)
        return [_known(parts) for parts in found]

    def try_lock(self, identity: Identity) -> Flow[bool]:
        yield from ()
        return True  # copies are told apart by the claim that is written with the row

    def remember(self, source: str, account: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        buffer: Buffer = yield State()
        if (source, account, digest) in buffer.digests:
            return buffer.digests[source, account, digest]
        key = {"pk": f"d#{digest_name(source, account, digest)}", "sk": "digest"}
        earlier = yield from self._get(key)
        if earlier is not None and earlier["ttl"] >= now // 1000:
            return str(earlier["e"])
        buffer.digests[source, account, digest] = event_id
        ttl = (now + self._table.tombstone_ms) // 1000
        tombstone = key | {"e": event_id, "src": source, "t": now, "ttl": ttl}

        def later(changes: Changes, after: After) -> None:
            change = changes.of(key, "remember")
            change.put = tombstone
            change.when("attribute_not_exists({pk}) OR {ttl} < :now", now=now // 1000)

        buffer.later.append(later)
        return None

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        calls = [
            Api(
                "update_item",
                {
                    "TableName": self.table,
                    "Key": typed_item(shapes.row_key(id)),
                    "UpdateExpression": "SET c = if_not_exists(c, :one) + :n",
                    "ConditionExpression": "id = :id",
                    "ExpressionAttributeValues": {":one": typed(1), ":n": typed(number), ":id": typed(str(id))},
                },
            )
            for id, number in copies
        ]
        if calls:
            yield Many(calls)

    def _note_pairs(self, rows: Sequence[NewRow]) -> Flow[None]:
        """Which sources and handlers there are, so that people can ask for a status without naming them."""
        pairs = {f"{row.message.source}\x1f{each.handler}" for row in rows for each in row.handlings}
        pairs |= {f"{row.message.source}\x1f" for row in rows if row.status is Status.DEAD}
        if new := pairs - self._pairs:
            yield self._alone(Change(META | {"sk": "pairs"}, add={"p": new}))
            self._pairs |= new


def _track(row: NewRow, handling: NewHandling) -> Track:
    assert handling.key is not None
    return Track(row.message.source, row.message.account, handling.handler, handling.key)


def _known(parts: list[Item]) -> Known | None:
    row = next((part for part in parts if part["sk"] == "row"), None)
    if row is None:
        return None
    head = shapes.head_of(row)
    return Known(
        id=row["id"],
        status=Status(row.get("st", "pending")),
        fingerprint=head[10],
        type=head[1],
        handlings=shapes.handlings_of(parts),
    )
