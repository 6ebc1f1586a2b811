"""What the verbs of an inbox on DynamoDB share: finding items, moving a handling, and letting rows expire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hooklane.batching.locks import open_in_forks
from hooklane.model.clock import Instant
from hooklane.model.inbox import RowId, Track
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.items import CLASSES, Item, plain, typed, typed_item
from hooklane.store.dynamodb.session import Api, Many, Refused
from hooklane.store.dynamodb.table import INDEX, Table
from hooklane.store.inbox import Flow

META = {"pk": "meta"}

After = list[Flow[None]]
Later = Callable[[Changes, After], None]
"""A write of the commit: it adds to the changes of the transaction, or to what is done right after it."""


class Base:
    """A table and its items."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.table = table.name
        self._lock = open_in_forks(threading.Lock())

    # Finding things

    def _get(self, key: Item) -> Flow[Item | None]:
        answer = yield Api("get_item", {"TableName": self.table, "Key": typed_item(key), "ConsistentRead": True})
        return plain(answer["Item"]) if "Item" in answer else None

    def _parts(self, names: Sequence[str], *, payload: bool, stale: bool = False) -> Flow[list[list[Item]]]:
        """The items of rows. Chunks of a payload sort first, so that they can be left out.

        Only those of the row as it is now, not of an expired one of the same name, unless *stale* are wanted.
        """
        queries = [
            {
                "TableName": self.table,
                "KeyConditionExpression": "pk = :pk AND sk >= :from",
                "ExpressionAttributeValues": {":pk": typed(f"r#{name}"), ":from": typed("b#" if payload else "h#")},
                "ConsistentRead": True,
            }
            for name in names
        ]
        answers = yield Many([Api("query", params) for params in queries])
        found: list[list[Item]] = []
        for params, answer in zip(queries, answers, strict=True):
            parts = yield from _all("query", params, answer)
            row = next((part for part in parts if part["sk"] == "row"), None)
            ours = [part for part in parts if row is not None and part.get("id") == row["id"]]
            found.append(parts if stale else ours)
        return found

    def _find(self, id: RowId, handler: str) -> Flow[Item | None]:
        """The item of a handling, with what is needed to move it."""
        (parts,) = yield from self._parts([shapes.row_name(id)], payload=False)
        row = next((part for part in parts if part["sk"] == "row"), None)
        if row is None or row["id"] != str(id):
            return None
        for part in parts:
            if part.get("hh") == handler:
                account = shapes.head_of(row)[2]
                about = {"src": row["src"], "tn": account, "pb": row.get("pb", False)}
                return {name: value for name, value in part.items() if name != "b"} | about
        return None

    def _scan(self, condition: str, values: dict[str, Any], fields: str) -> Flow[list[Item]]:
        params = {
            "TableName": self.table,
            "FilterExpression": condition,
            "ExpressionAttributeValues": values,
            "ProjectionExpression": fields,
            "ConsistentRead": True,
        }
        return (yield from _all("scan", params, (yield Api("scan", params))))

    def _index(self, condition: str, values: dict[str, Any]) -> Flow[list[Item]]:
        params = {
            "TableName": self.table,
            "IndexName": INDEX,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }
        return (yield from _all("query", params, (yield Api("query", params))))

    def _alone(self, change: Change) -> Api:
        kind, params = change.params(self.table)
        return Api(f"{kind.lower()}_item", params)

    # How a handling moves

    def _moved(
        self, item: Item, status: Status, due_at: Instant, change: Change | None = None, changes: Changes | None = None
    ) -> Change:
        """A handling becomes owed (or dead) in *status* from *due_at* on; indexes follow."""
        change = change or Change({"pk": item["pk"], "sk": item["sk"]})
        at = shapes.index_of(status, item["src"], item["hh"], due_at, item["id"])
        assert at is not None, f"{status} is not owed"
        change.assign |= {"hs": status.value, "hd": due_at, "ipk": at[0], "isk": at[1]}
        if "pn" in item and changes is not None:
            moved = item | {"hs": status.value, "hd": due_at, "ipk": at[0]}
            self._await(changes, moved, item.get("tn", ""))
        return change

    def _settled(self, changes: Changes, after: After, item: Item, why: str, status: Status, now: Instant) -> Change:
        """A handling is owed no more: out of the indexes, and its row may expire if that was the last one."""
        change = changes.of(item, why)
        change.assign |= {"hs": status.value, "ht": now}
        change.remove |= {"ipk", "isk"}
        if "pn" in item:
            changes.of(track_key(item["pn"]), "track").remove.add(f"w#{item['id']}")
        ttl = (now + self._table.ttl_ms) // 1000
        if item["sk"] == "row" and "n" not in item and "hm" not in item:
            change.assign["ttl"] = ttl
            change.when("attribute_not_exists({hm})")
            if self._table.drops_payload:
                change.remove |= {"b", "pb"}
        else:
            after.append(self._tidy(item["pk"][2:], ttl))
        return change

    def _await(self, changes: Changes, item: Item, account: str) -> None:
        """A track learns of a handling that is owed to it."""
        change = changes.of(track_key(item["pn"]), "track")
        change.assign[f"w#{item['id']}"] = shapes.waiting_line(item)
        track = Track(item["ipk"].partition("#")[2].partition("\x1f")[0], account, item["hh"], item["hk"])
        change.set_if_absent["n"] = shapes.track_names(track)
        if item["hs"] == Status.HELD:
            change.assign |= {"ipk": "gap", "isk": item["pn"]}

    # Expiry

    def _tidy(self, name: str, ttl: int) -> Flow[None]:
        """A row of several items may expire when the last of its handlings is settled."""
        (parts,) = yield from self._parts([name], payload=True)
        if not parts or not is_settled(parts):
            return
        row = next(part for part in parts if part["sk"] == "row")
        change = Change({"pk": row["pk"], "sk": "row"}, assign={"ttl": ttl})
        if self._table.drops_payload:
            change.remove |= {"b", "n", "pb"}
        if isinstance((yield self._alone(unless_owed_since(row, change))), Refused):
            return
        changes = []
        for part in (part for part in parts if part is not row):
            is_dropped = self._table.drops_payload and part["sk"].startswith("b#")
            change = Change({"pk": part["pk"], "sk": part["sk"]}, delete=is_dropped, assign={"ttl": ttl})
            changes.append(self._alone(change.when("{id} = :id", id=part["id"])))
        if changes:
            yield Many(changes)

    def _owe(self, id: RowId, changes: Changes, why: str) -> Change:
        """The change of a row that is owed again, if its payload is there: it does not expire, and nobody who saw it
        settled removes anything of it."""
        change = changes.of(shapes.row_key(id), why).when("{id} = :id AND attribute_exists({pb})", id=str(id))
        change.add["o"] = 1
        change.remove.add("ttl")
        return change

    def _keep(self, name: str) -> Flow[None]:
        """A row that is owed again does not expire, nor does any part of it."""
        (found,) = yield from self._parts([name], payload=True)
        parts = [part for part in found if "ttl" in part]
        if parts:
            yield Many(
                [
                    self._alone(
                        Change({"pk": part["pk"], "sk": part["sk"]}, remove={"ttl"}).when("attribute_exists({pk})")
                    )
                    for part in parts
                ]
            )


def track_key(name: str) -> Item:
    return {"pk": f"t#{name}", "sk": "track"}


def unless_owed_since(row: Item, change: Change) -> Change:
    """*change*, of *row* as it was read, unless it was owed again since."""
    change.when("{id} = :id", id=row["id"])
    return change.when("{o} = :owed", owed=row["o"]) if "o" in row else change.when("attribute_not_exists({o})")


def is_settled(parts: Iterable[Item]) -> bool:
    """Whether a row, given by its items, owes nothing and is not dead."""
    parts = list(parts)
    if any(part.get("st") == Status.DEAD for part in parts):
        return False
    return all(Status(part["hs"]) not in CLASSES for part in parts if "hs" in part)


def _all(verb: str, params: dict[str, Any], answer: Any) -> Flow[list[Item]]:
    """The items of *answer*, and of the answers that follow it: each holds a megabyte at most."""
    found = [plain(item) for item in answer["Items"]]
    while "LastEvaluatedKey" in answer:
        answer = yield Api(verb, params | {"ExclusiveStartKey": answer["LastEvaluatedKey"]})
        found += [plain(item) for item in answer["Items"]]
    return found
