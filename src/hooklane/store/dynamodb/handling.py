"""Handling on DynamoDB: the index says what is due, a conditional write who has it, and the fence is a condition."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, HandlingFailure, RowId
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.base import After, Base
from hooklane.store.dynamodb.changes import Changes
from hooklane.store.dynamodb.items import Item, plain, typed, typed_item
from hooklane.store.dynamodb.session import Api, Many, Refused
from hooklane.store.dynamodb.table import INDEX
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer, Claim, State
from hooklane.store.without_tx.names import text_of

CLAIM_PAGE = 50
CLAIM_ROUNDS_MAX = 20


class Handling(Base):
    """The verbs of claims."""

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        taken: list[Claimed] = []
        lost = 0
        for _ in range(CLAIM_ROUNDS_MAX):
            due = yield from self._due("lease" if expired else "due", handlers, now, max(CLAIM_PAGE, limit))
            before, missed = len(taken), 0
            while due and len(taken) < limit:
                some, due = due[: limit - len(taken)], due[limit - len(taken) :]
                claims = yield Many([self._claiming(item, now, lease_ms) for item in some])
                missed += sum(isinstance(answer, Refused) for answer in claims)
                for answer in claims:
                    if not isinstance(answer, Refused):
                        claimed = yield from self._taken(plain(answer["Attributes"]), now)
                        taken.append(claimed)
            lost += missed
            if len(taken) >= limit or not missed or (missed and len(taken) == before and lost > 10 * limit):
                break
        return sorted(taken, key=lambda each: (each.received_at, each.id))

    def _due(self, kind: str, handlers: Sequence[tuple[str, str]], now: Instant, page: int) -> Flow[list[Item]]:
        """What stands in the index as due, oldest first: a hint, for the index lags; the conditional write decides."""
        queries = [
            Api(
                "query",
                {
                    "TableName": self.table,
                    "IndexName": INDEX,
                    "KeyConditionExpression": "ipk = :pair AND isk < :until",
                    "ExpressionAttributeValues": {
                        ":pair": typed(f"{kind}#{source}\x1f{handler}"),
                        ":until": typed(f"{max(0, now) + 1:019d}"),
                    },
                    "Limit": page,
                },
            )
            for source, handler in handlers
        ]
        answers = (yield Many(queries)) if queries else []
        return sorted(
            (plain(item) for answer in answers for item in answer["Items"]), key=lambda item: str(item["isk"])
        )

    def _claiming(self, item: Item, now: Instant, lease_ms: int) -> Api:
        """Take a handling if it stands where the index said: lease, higher fence, one more attempt."""
        pair = item["ipk"].partition("#")[2]
        id = item["isk"].partition("#")[2]
        return Api(
            "update_item",
            {
                "TableName": self.table,
                "Key": typed_item({"pk": item["pk"], "sk": item["sk"]}),
                "UpdateExpression": "SET hw = hs, hs = :taken, hd = :until, ipk = :pair, isk = :place "
                "ADD hf :one, ha :one",
                "ConditionExpression": "ipk = :was_pair AND isk = :was_place",
                "ExpressionAttributeValues": {
                    ":taken": typed("in_progress"),
                    ":until": typed(now + lease_ms),
                    ":pair": typed(f"lease#{pair}"),
                    ":place": typed(f"{max(0, now + lease_ms):019d}#{id}"),
                    ":one": typed(1),
                    ":was_pair": typed(item["ipk"]),
                    ":was_place": typed(item["isk"]),
                },
                "ReturnValues": "ALL_NEW",
            },
        )

    def claim_one(self, id: RowId, handler: str, *, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        found = yield from self._find(id, handler)
        if found is None or found["hs"] not in ("pending", "failed", "held", "in_progress"):
            return None
        if found["hs"] == Status.IN_PROGRESS and found["hd"] > now:
            return None
        answer = yield self._claiming(found, now, lease_ms)
        if isinstance(answer, Refused):
            return None
        return (yield from self._taken(plain(answer["Attributes"]), now, due_at=found["hd"]))

    def _taken(self, item: Item, now: Instant, due_at: int | None = None) -> Flow[Claimed]:
        """What was claimed, with its message; and how to give it back."""
        buffer: Buffer = yield State()
        was = Status(item["hw"])
        if item["sk"] == "row" and "b" in item:
            row, payload = item, item["b"]
        else:
            (parts,) = yield from self._parts([item["pk"][2:]], payload=True)
            row, payload = next(part for part in parts if part["sk"] == "row"), shapes.payload_of(parts)
        claimed = shapes.claimed_of(row, item, payload, was=was)
        before = Instant(now if due_at is None else due_at)
        where = {name: value for name, value in item.items() if name != "b"} | {
            "src": row["src"],
            "tn": claimed.message.account,
        }
        buffer.claims[claimed.id, claimed.handler] = Claim(claimed.fence, was, before, where)
        return claimed

    def renew(self, id: RowId, handler: str, fence: int, *, now: Instant, lease_ms: int) -> Flow[bool]:
        found = yield from self._find(id, handler)
        if found is None:
            return False
        change = self._moved(found, Status.IN_PROGRESS, Instant(now + lease_ms))
        change.when("{hf} = :fence AND {hs} = :status", fence=fence, status="in_progress")
        return not isinstance((yield self._alone(change)), Refused)

    def complete(self, id: RowId, handler: str, fence: int, status: Status, now: Instant) -> Flow[bool]:
        buffer: Buffer = yield State()
        item = yield from self._held_item(buffer, id, handler, fence)
        if item is None:
            return False

        def later(changes: Changes, after: After) -> None:
            change = self._settled(changes, after, item, "complete", status, now)
            change.remove |= {"he", "hb"}
            change.when("{hf} = :fence AND {hs} = :status", fence=fence, status="in_progress")

        buffer.later.append(later)
        return True

    def fail(self, id: RowId, handler: str, fence: int, failure: HandlingFailure) -> Flow[bool]:
        buffer: Buffer = yield State()
        item = yield from self._held_item(buffer, id, handler, fence)
        if item is None:
            return False

        def later(changes: Changes, after: After) -> None:
            change = self._moved(item, failure.status, failure.due_at, changes.of(item, "fail"), changes)
            change.assign |= {"he": text_of(failure.error), "hb": text_of(failure.traceback)}
            change.assign["ht"] = failure.now if failure.status is Status.DEAD else None
            if failure.attempts is not None:
                change.assign["ha"] = failure.attempts
            change.when("{hf} = :fence AND {hs} = :status", fence=fence, status="in_progress")

        buffer.later.append(later)
        return True

    def _held_item(self, buffer: Buffer, id: RowId, handler: str, fence: int) -> Flow[Item | None]:
        if buffer.holds(id, handler, fence):
            held: Item = buffer.claims[id, handler].where
            return held
        found = yield from self._find(id, handler)
        ours = found is not None and found["hf"] == fence and found["hs"] == Status.IN_PROGRESS
        return found if ours else None
