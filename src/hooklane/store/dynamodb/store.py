"""The inbox in DynamoDB: claims are conditional writes; a handler's own writes are one transaction with its completion.

Rows and claims are written at once; what settles them waits for the commit. See `items.py` for the shapes.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hooklane.errors import LeaseLost, StoreBusy, UsageError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import (
    Claimed,
    Gap,
    Identity,
    Known,
    NewHandling,
    NewRow,
    RowId,
    Track,
)
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.items import CLASSES, Item, plain, typed, typed_item
from hooklane.store.dynamodb.keeping import Keeping
from hooklane.store.dynamodb.session import Api, AsyncDynamoSession, DynamoSession, Many, Refused
from hooklane.store.dynamodb.table import INDEX, Table, table_of
from hooklane.store.dynamodb.tx import ACTIONS_MAX, ConditionFailed, Writes
from hooklane.store.inbox import Capabilities, Flow
from hooklane.store.leased.buffer import Buffer, Claim, State, TrackState, Waiting
from hooklane.store.leased.names import digest_name, identity_name, text_of, track_name
from hooklane.store.leased.tracks import TrackVerbs, gap_of

WAIT_MS = 5_000
LOCK_MS = 60_000
THREADS = 16
CLAIM_PAGE = 50
CLAIM_ROUNDS_MAX = 20
PAYLOAD_BYTES_MAX = 2_900_000
_META = {"pk": "meta"}

After = list[Flow[None]]
Later = Callable[[Changes, After], None]
"""A write of the commit: it adds to the changes of the transaction, or to what is done right after it."""


class DynamoInbox(Keeping, TrackVerbs):
    """Verbs; see `items.py` for what is kept where."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.table = table.name
        self._lock = threading.Lock()
        self._last_place = 0
        self._pairs: set[str] = set()
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

    # Sessions

    def begin(self, *, wait_ms: int | None = None) -> DynamoSession:
        return DynamoSession(self, self._table.client(), self._pool(), _buffer(wait_ms))

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncDynamoSession:
        return AsyncDynamoSession(self, await self._table.async_client(), _buffer(wait_ms))

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

    # The end of a session

    def commit(self, buffer: Buffer, tx: Writes) -> Flow[None]:
        """Write what was buffered and what the handler asked for, in one transaction."""
        changes, after = Changes(), After()
        for later in buffer.later:
            later(changes, after)
        for state in buffer.tracks.values():
            self._write_track(state, changes, after, buffer.token)
        yield from self._write(list(changes), tx)
        for flow in after:
            yield from flow

    def _write(self, changes: list[Change], tx: Writes) -> Flow[None]:
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
        raise StoreBusy(f"another session changed the same thing ({why}) meanwhile; nothing was written")

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
        """Take a row back that nobody relies on; else make what was claimed with it pending."""
        changes = Changes()
        for item in items:
            change = changes.of(item)
            change.delete = True
            if item["sk"] == "row":
                change.when("attribute_not_exists({k}) AND {x} = :token", token=token)
            if "hh" in item:
                change.when("{hf} = :fence AND {hs} = :status", fence=item["hf"], status=item["hs"])
                if "pn" in item:
                    changes.of(_track_key(item["pn"])).remove.add(f"w#{id}")
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
        change.remove.add("ho")
        change.when("{hf} = :fence AND {hs} = :status", fence=claim.fence, status="in_progress")
        yield self._alone(change)

    def _alone(self, change: Change) -> Api:
        kind, params = change.params(self.table)
        return Api(f"{kind.lower()}_item", params)

    # Receiving

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
                    # Whoever is answered now relies on it: it is not taken back any more.
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
                self._await(changes, part, row.message.tenant)
        written = [change.params(self.table) for change in changes]
        written[0][1]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if len(written) == 1:
            return Api("put_item", written[0][1])
        return Api("transact_write_items", {"TransactItems": [{kind: params} for kind, params in written]})

    def _await(self, changes: Changes, item: Item, tenant: str) -> None:
        """A track learns of a handling that is owed to it."""
        change = changes.of(_track_key(item["pn"]), "track")
        change.assign[f"w#{item['id']}"] = shapes.waiting_line(item)
        track = Track(item["ipk"].partition("#")[2].partition("\x1f")[0], tenant, item["hh"], item["hk"])
        change.set_if_absent["n"] = shapes.track_names(track)
        if item["hs"] == Status.HELD:
            change.assign |= {"ipk": "gap", "isk": item["pn"]}

    def _places(self, row: NewRow) -> Flow[dict[str, int]]:
        """Numbers for thin events, counted before they are stored: a fetch that begins later covers them."""
        thin = [each.handler for each in row.handlings if each.key is not None and each.seq is None]
        if not thin:
            return {}
        params = Change(_META | {"sk": "counter"}, add={"n": 1}).params(self.table)[1] | {"ReturnValues": "UPDATED_NEW"}
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

    def remember(self, source: str, tenant: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        buffer: Buffer = yield State()
        if (source, tenant, digest) in buffer.digests:
            return buffer.digests[source, tenant, digest]
        key = {"pk": f"d#{digest_name(source, tenant, digest)}", "sk": "digest"}
        earlier = yield from self._get(key)
        if earlier is not None and earlier["ttl"] >= now // 1000:
            return str(earlier["e"])
        buffer.digests[source, tenant, digest] = event_id
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

    # Handling

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, owner: str, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        taken: list[Claimed] = []
        lost = 0
        for _ in range(CLAIM_ROUNDS_MAX):
            due = yield from self._due("lease" if expired else "due", handlers, now, max(CLAIM_PAGE, limit))
            before, missed = len(taken), 0
            while due and len(taken) < limit:
                some, due = due[: limit - len(taken)], due[limit - len(taken) :]
                claims = yield Many([self._claiming(item, owner, now, lease_ms) for item in some])
                missed += sum(isinstance(answer, Refused) for answer in claims)
                for answer in claims:
                    if not isinstance(answer, Refused):
                        claimed = yield from self._taken(plain(answer["Attributes"]), now, lease_ms)
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

    def _claiming(self, item: Item, owner: str, now: Instant, lease_ms: int) -> Api:
        """Take a handling if it stands where the index said: lease, higher fence, one more attempt."""
        pair = item["ipk"].partition("#")[2]
        id = item["isk"].partition("#")[2]
        return Api(
            "update_item",
            {
                "TableName": self.table,
                "Key": typed_item({"pk": item["pk"], "sk": item["sk"]}),
                "UpdateExpression": "SET hw = hs, hs = :taken, hd = :until, ho = :owner, ipk = :pair, isk = :place "
                "ADD hf :one, ha :one",
                "ConditionExpression": "ipk = :was_pair AND isk = :was_place",
                "ExpressionAttributeValues": {
                    ":taken": typed("in_progress"),
                    ":until": typed(now + lease_ms),
                    ":owner": typed(owner),
                    ":pair": typed(f"lease#{pair}"),
                    ":place": typed(f"{max(0, now + lease_ms):019d}#{id}"),
                    ":one": typed(1),
                    ":was_pair": typed(item["ipk"]),
                    ":was_place": typed(item["isk"]),
                },
                "ReturnValues": "ALL_NEW",
            },
        )

    def claim_one(self, id: RowId, handler: str, *, owner: str, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        found = yield from self._find(id, handler)
        if found is None or found["hs"] not in ("pending", "failed", "held", "in_progress"):
            return None
        if found["hs"] == Status.IN_PROGRESS and found["hd"] > now:
            return None
        answer = yield self._claiming(found, owner, now, lease_ms)
        if isinstance(answer, Refused):
            return None
        return (yield from self._taken(plain(answer["Attributes"]), now, lease_ms, due_at=found["hd"]))

    def _taken(self, item: Item, now: Instant, lease_ms: int, due_at: int | None = None) -> Flow[Claimed]:
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
            "tn": claimed.message.tenant,
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
            change.remove |= {"he", "hb", "ho"}
            change.when("{hf} = :fence AND {hs} = :status", fence=fence, status="in_progress")

        buffer.later.append(later)
        return True

    def fail(
        self,
        id: RowId,
        handler: str,
        fence: int,
        *,
        status: Status,
        due_at: Instant,
        error: str,
        traceback: str,
        now: Instant,
        attempts: int | None = None,
    ) -> Flow[bool]:
        buffer: Buffer = yield State()
        item = yield from self._held_item(buffer, id, handler, fence)
        if item is None:
            return False

        def later(changes: Changes, after: After) -> None:
            change = self._moved(item, status, due_at, changes.of(item, "fail"), changes)
            change.assign |= {"he": text_of(error), "hb": text_of(traceback)}
            change.assign["ht"] = now if status is Status.DEAD else None
            change.remove.add("ho")
            if attempts is not None:
                change.assign["ha"] = attempts
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
            changes.of(_track_key(item["pn"]), "track").remove.add(f"w#{item['id']}")
        ttl = (now + self._table.ttl_ms) // 1000
        if item["sk"] == "row" and "n" not in item and "hm" not in item:
            change.assign["ttl"] = ttl
            change.when("attribute_not_exists({hm})")
            if self._table.drops_payload:
                change.remove |= {"b", "pb"}
        else:
            after.append(self._tidy(item["pk"][2:], ttl))
        return change

    # Order; see TrackVerbs

    def _take_track(self, track: Track, token: str) -> Flow[TrackState | None]:
        # There is no clock in DynamoDB, so the lease of a track is by the clocks of its holders; the version decides.
        now = wall_now()
        change = Change(_track_key(track_name(track)), assign={"lk": token, "lu": now + LOCK_MS})
        change.set_if_absent["n"] = shapes.track_names(track)
        change.when("attribute_not_exists({lk}) OR {lk} = :token OR {lu} < :now", token=token, now=now)
        answer = yield Api("update_item", change.params(self.table)[1] | {"ReturnValues": "ALL_NEW"})
        return None if isinstance(answer, Refused) else shapes.track_of(plain(answer["Attributes"]))

    def _read_track(self, track: Track) -> Flow[TrackState | None]:
        found = yield from self._get(_track_key(track_name(track)))
        return None if found is None else shapes.track_of(found)

    def _write_track(self, state: TrackState, changes: Changes, after: After, token: str) -> None:
        key = _track_key(track_name(state.track))
        if not state.is_changed and all(change.key != key for change in changes):
            after.append(self._unlock(state.track, token))
            return
        change = changes.of(key, "track")
        change.remove |= {"lk", "lu"}
        waits = "gap" if _has_held(state, change) else None
        change.assign |= {"ipk": waits, "isk": waits and key["pk"][2:]}
        if state.version:
            change.when("{v} = :version", version=state.version)
        else:
            change.when("attribute_not_exists({v})")
        change.assign |= {"v": state.version + 1, "q": state.begin(), "a": state.at, "k": state.token}
        change.assign["e"] = state.tie if state.at is not None else None

    def _unlock(self, track: Track, token: str) -> Flow[None]:
        change = Change(_track_key(track_name(track)), remove={"lk", "lu"})
        yield self._alone(change.when("{lk} = :token", token=token))

    def _free(self, track: Track, waiting: Waiting, now: Instant) -> Later:
        item = self._waiting_item(track, waiting)

        def later(changes: Changes, after: After) -> None:
            change = self._moved(item, Status.PENDING, now, changes.of(item, "release"), changes)
            change.when("{hs} = :held", held="held")

        return later

    def _cover(self, track: Track, waiting: Waiting, now: Instant) -> Later:
        item = self._waiting_item(track, waiting)

        def later(changes: Changes, after: After) -> None:
            after.append(self._covering(item, now))

        return later

    def _covering(self, item: Item, now: Instant) -> Flow[None]:
        """Apart from the commit: what is at work or settled meanwhile stays as it is, and is handled once more."""
        changes, after = Changes(), After()
        change = self._settled(changes, after, item, "coalesce", Status.COMPLETED, now)
        change.remove |= {"he", "hb"}
        change.when("{hs} = :pending OR {hs} = :failed", pending="pending", failed="failed")
        written = [{kind: params} for kind, params in (each.params(self.table) for each in changes)]
        answer = yield Api("transact_write_items", {"TransactItems": written})
        if not isinstance(answer, Refused):
            for flow in after:
                yield from flow

    def _waiting_item(self, track: Track, waiting: Waiting) -> Item:
        item: Item = shapes.row_key(waiting.id) | {
            "sk": waiting.where,
            "id": str(waiting.id),
            "src": track.source,
            "tn": track.tenant,
            "hh": track.handler,
            "hk": track.key,
            "hs": waiting.status.value,
            "hd": waiting.due_at,
            "hq": waiting.seq,
            "hp": waiting.prev_seq,
            "hg": waiting.place or None,
            "pn": track_name(track),
        }
        return {name: value for name, value in item.items() if value is not None}

    def _place(self, until: RowId, waiting: Waiting) -> bool:
        return 0 < waiting.place <= int(until)

    def latest_row(self) -> Flow[RowId]:
        found = yield from self._get(_META | {"sk": "counter"})
        return 0 if found is None else int(found["n"])

    def gaps(self, before: Instant, limit: int) -> Flow[list[Gap]]:
        found: list[Gap] = []
        # Every track with held messages stands in the index; since when is in the track itself.
        for item in (yield from self._index("ipk = :gap", {":gap": typed("gap")})):
            whole = yield from self._get({"pk": item["pk"], "sk": item["sk"]})
            gap = None if whole is None else gap_of(shapes.track_of(whole), before)
            if gap is not None:
                found.append(gap)
        return sorted(found, key=lambda gap: gap.since)[:limit]

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
            parts = [plain(item) for item in answer["Items"]]
            while "LastEvaluatedKey" in answer:  # an answer holds a megabyte
                answer = yield Api("query", params | {"ExclusiveStartKey": answer["LastEvaluatedKey"]})
                parts += [plain(item) for item in answer["Items"]]
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
                tenant = shapes.head_of(row)[2]
                return {name: value for name, value in part.items() if name != "b"} | {"src": row["src"], "tn": tenant}
        return None

    def _note_pairs(self, rows: Sequence[NewRow]) -> Flow[None]:
        """Which sources and handlers there are, so that people can ask for a status without naming them."""
        pairs = {f"{row.message.source}\x1f{each.handler}" for row in rows for each in row.handlings}
        pairs |= {f"{row.message.source}\x1f" for row in rows if row.status is Status.DEAD}
        if new := pairs - self._pairs:
            yield self._alone(Change(_META | {"sk": "pairs"}, add={"p": new}))
            self._pairs |= new


def by_url(url: str) -> DynamoInbox:
    """The inbox at *url*."""
    return DynamoInbox(table_of(url))


def _buffer(wait_ms: int | None) -> Buffer:
    return Buffer(secrets.token_hex(8), WAIT_MS if wait_ms is None else wait_ms)


def _track(row: NewRow, handling: NewHandling) -> Track:
    assert handling.key is not None
    return Track(row.message.source, row.message.tenant, handling.handler, handling.key)


def _track_key(name: str) -> Item:
    return {"pk": f"t#{name}", "sk": "track"}


def _has_held(state: TrackState, change: Change) -> bool:
    """Whether the track has held messages once *change* is written."""
    held = {str(each.id) for each in state.waiting.values() if each.status is Status.HELD}
    for name, line in change.assign.items():
        if name.startswith("w#"):
            held.discard(name[2:])
            if line.startswith("held|"):
                held.add(name[2:])
    return bool(held - {name[2:] for name in change.remove if name.startswith("w#")})


def _known(parts: list[Item]) -> Known | None:
    row = next((part for part in parts if part["sk"] == "row"), None)
    if row is None:
        return None
    return Known(
        id=row["id"],
        status=Status(row.get("st", "pending")),
        fingerprint=shapes.head_of(row)[10],
        handlings=shapes.handlings_of(parts),
    )
