"""The inbox in DynamoDB: claims are conditional writes; a handler's own writes are one transaction with its completion.

Rows and claims are written at once; what settles them waits for the commit. See `items.py` for the shapes.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from hooklane.errors import LeaseLost, Overtaken, StoreBusy, UsageError
from hooklane.model.inbox import RowId
from hooklane.model.message import Status
from hooklane.store.dynamodb.base import After, track_key
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.handling import Handling
from hooklane.store.dynamodb.items import Item
from hooklane.store.dynamodb.keeping import Keeping
from hooklane.store.dynamodb.ordering import Ordering
from hooklane.store.dynamodb.receiving import Receiving
from hooklane.store.dynamodb.session import Api, AsyncDynamoSession, DynamoSession, Refused
from hooklane.store.dynamodb.table import INDEX, Table, table_of
from hooklane.store.dynamodb.tx import ACTIONS_MAX, ConditionFailed, DynamoTx
from hooklane.store.inbox import Capabilities, Flow
from hooklane.store.without_tx.buffer import Buffer, Claim, new_buffer

THREADS = 16
PAYLOAD_BYTES_MAX = 2_900_000


class DynamoInbox(Receiving, Handling, Ordering, Keeping):
    """An inbox in one table."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._threads: ThreadPoolExecutor | None = None
        self._threads_pid = 0
        self.capabilities = Capabilities(
            name="dynamodb",
            atomic=True,
            durable=True,
            survives_failover=True,
            native_async=True,
            transactional=False,
            expires_ms=table.ttl_ms,
            payload_bytes_max=PAYLOAD_BYTES_MAX,
            sweeps=False,
            caveat="one commit with the handler's writes in DynamoDB through tx, and with nothing else",
        )

    def create_table(self) -> bool:
        """Create the table, on demand, with index and TTL; False when it is there already."""
        return self._table.create()

    def begin(self, *, wait_ms: int | None = None) -> DynamoSession:
        return DynamoSession(self, self._table.client(), self._pool(), new_buffer(DynamoTx(), wait_ms))

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncDynamoSession:
        return AsyncDynamoSession(self, await self._table.async_client(), new_buffer(DynamoTx(), wait_ms))

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None or self._threads_pid != os.getpid():
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hooklane-dynamodb")
                self._threads_pid = os.getpid()
            return self._threads

    def close(self) -> None:
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None and self._threads_pid == os.getpid():
            threads.shutdown(wait=False)
        self._table.close()

    async def aclose(self) -> None:
        await self._table.aclose()
        self.close()

    def commit(self, buffer: Buffer) -> Flow[None]:
        """Write what was buffered and what the handler asked for, in one transaction."""
        changes, after = Changes(), After()
        for later in buffer.later:
            later(changes, after)
        for state in buffer.tracks.values():
            self._write_track(state, changes, after, buffer.token)
        yield from self._write(list(changes), buffer.tx)
        for flow in after:
            yield from flow

    def _write(self, changes: list[Change], tx: DynamoTx) -> Flow[None]:
        actions = tx.actions
        ours = [change.params(self.table) for change in changes]
        if not actions and not ours:
            return
        if len(actions) + len(ours) > ACTIONS_MAX:
            raise UsageError(f"a transaction of DynamoDB takes {ACTIONS_MAX} writes, got {len(actions) + len(ours)}")
        if not actions and len(ours) == 1:
            kind, params = ours[0]
            answer = yield Api(f"{kind.lower()}_item", params)
            codes: tuple[str, ...] = ("ConditionalCheckFailed",)
        else:
            written = actions + [{kind: params} for kind, params in ours]
            answer = yield Api("transact_write_items", {"TransactItems": written})
            codes = answer.codes if isinstance(answer, Refused) else ()
        if not isinstance(answer, Refused):
            return
        failed = [number for number, code in enumerate(codes) if code == "ConditionalCheckFailed"]
        # The fence first: a worker that lost its claim must hear that, whatever else is wrong.
        for number in sorted(failed, reverse=True):
            if number >= len(actions) and changes[number - len(actions)].why in ("complete", "fail"):
                raise LeaseLost("another worker took this over meanwhile: nothing was written")
        if failed and failed[0] < len(actions):
            raise ConditionFailed(tx.tell(failed[0]))
        why = changes[failed[0] - len(actions)].why if failed else "?"
        overtaken = Overtaken if why in ("reopen", "attach", "settle", "restate") else StoreBusy
        raise overtaken(f"another session changed the same thing ({why}) meanwhile; nothing was written")

    def roll_back(self, buffer: Buffer) -> Flow[None]:
        """Give back what this session took; what it buffered was never there."""
        for id, items in buffer.inserted.items():
            yield from self._retract(id, items, buffer.token)
        for (id, _), claim in buffer.claims.items():
            if id not in buffer.inserted:
                yield from self._unclaim(claim)
        for state in buffer.tracks.values():
            yield from self._unlock(state.track, buffer.token)

    def _retract(self, id: RowId, items: list[Item], token: str) -> Flow[None]:
        """Take a row back that no answer relies on; else make what was claimed with it pending."""
        changes = Changes()
        for item in items:
            change = changes.of(item)
            change.delete = True
            if item["sk"] == "row":
                change.when("attribute_not_exists({k}) AND {x} = :token", token=token)
            if "hh" in item:
                change.when("{hf} = :fence AND {hs} = :status", fence=item["hf"], status=item["hs"])
                if "pn" in item:
                    changes.of(track_key(item["pn"])).remove.add(f"w#{id}")
        written = [{kind: params} for kind, params in (change.params(self.table) for change in changes)]
        answer = yield Api("transact_write_items", {"TransactItems": written})
        if isinstance(answer, Refused):
            for item in items:
                if item.get("hs") == Status.IN_PROGRESS:
                    yield from self._unclaim(Claim(item["hf"], Status.PENDING, item["hd"], item))

    def _unclaim(self, claim: Claim) -> Flow[None]:
        item: Item = claim.where
        change = self._moved(item, claim.status, claim.due_at)
        change.assign["ha"] = item["ha"] - 1
        change.when("{hf} = :fence AND {hs} = :status", fence=claim.fence, status="in_progress")
        yield self._alone(change)

    def examine(self) -> Flow[list[str]]:
        """What an operator should mend about this table."""
        warnings: list[str] = []
        described = yield Api("describe_table", {"TableName": self.table})
        indexes = {each["IndexName"] for each in described["Table"].get("GlobalSecondaryIndexes", [])}
        if INDEX not in indexes:
            warnings.append(
                f"the table has no index {INDEX!r}: workers find nothing; create the table with create-table"
            )
        ttl = yield Api("describe_time_to_live", {"TableName": self.table})
        told = ttl.get("TimeToLiveDescription", {})
        if told.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING") or told.get("AttributeName") != "ttl":
            warnings.append("time to live is not on for the attribute ttl: settled rows are never removed")
        return warnings


def by_url(url: str) -> DynamoInbox:
    """The inbox at *url*."""
    return DynamoInbox(table_of(url))
