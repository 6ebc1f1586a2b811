"""Keeping and reading: replay, pruning, searches. They are for people and maintenance; most read the whole table."""

from __future__ import annotations

import socket

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Count, Heartbeat, NewHandling, Row, RowId, Search, Track
from hooklane.model.jumps import NOTE_MS, set_back
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.base import After, Base, is_settled, unless_owed_since
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.items import CLASSES, Item, typed
from hooklane.store.dynamodb.session import Api, Many, Refused
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer, State
from hooklane.store.without_tx.names import text_of, track_name
from hooklane.store.without_tx.search import matches

TOGETHER = 25
_BEAT = {"pk": "meta", "sk": "beat"}


class Keeping(Base):
    """The verbs that are not on the path of an event."""

    def reopen(self, id: RowId, handler: str, *, now: Instant, was: Status | None = None) -> Flow[bool]:
        buffer: Buffer = yield State()
        item = yield from self._find(id, handler)
        if item is None or was not in (None, item["hs"]) or (item["hs"] == Status.IN_PROGRESS and item["hd"] > now):
            return False
        if not item["pb"]:
            return False

        def later(changes: Changes, after: After) -> None:
            self._owe(id, changes, "reopen")
            change = self._moved(item, Status.PENDING, now, changes.of(item, "reopen"), changes)
            change.assign |= {"ha": 0, "hf": item["hf"] + 1}
            change.remove |= {"ht", "ttl"}
            change.when("{hf} = :fence AND {hs} = :status", fence=item["hf"], status=item["hs"])
            if item["sk"] != "row" or "n" in item:
                after.append(self._keep(item["pk"][2:]))

        buffer.later.append(later)
        return True

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        buffer: Buffer = yield State()
        (parts,) = yield from self._parts([shapes.row_name(id)], payload=False)
        row = next((part for part in parts if part["sk"] == "row"), None)
        if row is None or row["id"] != str(id) or "pb" not in row:
            return
        if any(part.get("hh") == handling.handler for part in parts):
            return
        account, track = shapes.head_of(row)[2], None
        if handling.key is not None:
            track = track_name(Track(row["src"], account, handling.handler, handling.key))
        item = {"pk": row["pk"], "sk": f"h#{handling.handler}", "id": row["id"]}
        item |= shapes.new_handling(row["src"], row["id"], handling, track, None)

        def later(changes: Changes, after: After) -> None:
            new = changes.of(item, "attach").when("attribute_not_exists({pk})")
            new.put = item
            whole = self._owe(id, changes, "attach")
            whole.assign["hm"] = True
            whole.remove |= {"st"} | ({"ipk", "isk"} if row.get("st") == Status.DEAD else set())
            if track is not None and "ipk" in item:
                self._await(changes, item, account)
            after.append(self._keep(row["pk"][2:]))

        buffer.later.append(later)

    def restate(self, id: RowId, status: Status, reason: str, now: Instant, *, was: Status) -> Flow[bool]:
        buffer: Buffer = yield State()
        (parts,) = yield from self._parts([shapes.row_name(id)], payload=False)
        row = next((part for part in parts if part["sk"] == "row"), None)
        if row is None or row["id"] != str(id) or row.get("st") != was:
            return False

        def later(changes: Changes, after: After) -> None:
            change = changes.of(row, "restate").when("{id} = :id AND {st} = :was", id=row["id"], was=was.value)
            change.assign |= {"st": status.value, "rs": text_of(reason)}
            change.remove |= {"ipk", "isk"} if was is Status.DEAD else set()
            after.append(self._tidy(row["pk"][2:], (now + self._table.ttl_ms) // 1000))

        buffer.later.append(later)
        return True

    def settle(
        self, id: RowId, handler: str, status: Status, note: str, now: Instant, *, was: Status | None = None
    ) -> Flow[bool]:
        buffer: Buffer = yield State()
        item = yield from self._find(id, handler)
        if item is None or was not in (None, item["hs"]):
            return False
        if item["hs"] not in ("dead", "held", "failed", "pending"):
            return False

        def later(changes: Changes, after: After) -> None:
            change = self._settled(changes, after, item, "settle", status, now)
            change.assign |= {"he": text_of(note), "hf": item["hf"] + 1}
            change.when("{hf} = :fence AND {hs} = :status", fence=item["hf"], status=item["hs"])

        buffer.later.append(later)
        buffer.given_up.add((str(id), handler))
        return True

    def heartbeat(self) -> Flow[Heartbeat | None]:
        found = yield from self._get(_BEAT)
        if found is None:
            return None
        return Heartbeat(Instant(found["seen"]), found["down"], Instant(found["upto"]))

    def beat(self, heartbeat: Heartbeat) -> Flow[None]:
        values = {"seen": heartbeat.seen_at, "down": heartbeat.down_ms, "upto": heartbeat.down_until}
        yield self._alone(Change(_BEAT, put=_BEAT | values))

    def keep_clock(self, now: Instant, said: Instant = START) -> Flow[int]:
        # Times are those of many hosts here, and a host that is behind the others was not set back: each has its note.
        key = {"pk": "meta", "sk": f"clock#{text_of(socket.gethostname())}"}
        noted = yield from self._get(key)
        by = 0 if noted is None else set_back(Instant(noted["t"]), now)
        note = Change(key, assign={"t": now, "ttl": (now + NOTE_MS) // 1000})
        if noted is not None:
            note.when("{t} = :noted", noted=noted["t"])
        # Of the workers of a host one moves what waits: who writes the note.
        if isinstance((yield self._alone(note)), Refused):
            return 0
        if by:
            yield from self._move_back(by, now)
        return by

    def _move_back(self, by: int, now: Instant) -> Flow[None]:
        """All that waits and all leases, by what the clock was set back, but not before *now*."""
        fields = "pk, sk, id, hh, hs, hd, hk, hq, hp, hg, pn, ipk, isk"
        found = yield from self._scan("hd > :now AND attribute_exists(ipk)", {":now": typed(now)}, fields)
        for item in found:
            if item["hs"] == Status.DEAD:
                continue
            source = item["ipk"].partition("#")[2].partition("\x1f")[0]
            changes, due_at = Changes(), Instant(max(now, item["hd"] - by))
            moved = self._moved(item | {"src": source}, Status(item["hs"]), due_at, changes.of(item, "clock"), changes)
            moved.when("{isk} = :place", place=item["isk"])
            written = [{kind: params} for kind, params in (each.params(self.table) for each in changes)]
            yield Api("transact_write_items", {"TransactItems": written})  # refused: it has moved on meanwhile

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        gone = 0
        for parts in (yield from self._rows_before(before, source)):
            if gone >= limit:
                break
            if not is_settled(parts):
                continue
            row = next(part for part in parts if part["sk"] == "row")
            removed = unless_owed_since(row, Change({"pk": row["pk"], "sk": "row"}, delete=True))
            if isinstance((yield self._alone(removed)), dict):
                gone += 1
                yield from self._erase_parts(row)
        return gone

    def _erase_parts(self, row: Item) -> Flow[None]:
        (found,) = yield from self._parts([row["pk"][2:]], payload=True, stale=True)
        parts = [part for part in found if part.get("id") == row["id"]]
        if parts:
            yield Many([self._alone(Change({"pk": part["pk"], "sk": part["sk"]}, delete=True)) for part in parts])

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        purged = 0
        for parts in (yield from self._rows_before(before, source)):
            if purged >= limit:
                break
            row = next(part for part in parts if part["sk"] == "row")
            if not is_settled(parts) or "pb" not in row:
                continue
            change = unless_owed_since(row, Change({"pk": row["pk"], "sk": "row"}, remove={"b", "n", "pb"}))
            if isinstance((yield self._alone(change)), dict):
                purged += 1
                (parts,) = yield from self._parts([row["pk"][2:]], payload=True)
                chunks = [part for part in parts if part["sk"].startswith("b#")]
                if chunks:
                    yield Many([self._alone(Change({"pk": c["pk"], "sk": c["sk"]}, delete=True)) for c in chunks])
        return purged

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        values = {":sk": typed("digest"), ":before": typed(before)}
        found = yield from self._scan("sk = :sk AND t < :before", values, "pk, sk, src")
        old = [item for item in found if source in (None, item["src"])][:limit]
        for start in range(0, len(old), TOGETHER):
            yield Many(
                [
                    self._alone(Change({"pk": item["pk"], "sk": "digest"}, delete=True))
                    for item in old[start : start + TOGETHER]
                ]
            )
        return len(old)

    def _rows_before(self, before: Instant, source: str | None) -> Flow[list[list[Item]]]:
        """Rows received before *before*, oldest first, without their payloads."""
        rows = yield from self._all_rows()
        old = [
            parts
            for parts in rows
            for row in parts
            if row["sk"] == "row" and row["t"] < before and source in (None, row["src"])
        ]
        return sorted(old, key=lambda parts: str(parts[0]["id"]))

    def _all_rows(self) -> Flow[list[list[Item]]]:
        """Every row of the table as its items, without payloads: a scan, for people and for pruning by hand."""
        fields = "pk, sk, id, src, t, m, st, rs, c, o, n, pb, hh, hs, hf, ha, hd, hk, hq, hp, he, hb, ht"
        values = {":r": typed("r#"), ":b": typed("b#")}
        found = yield from self._scan("begins_with(pk, :r) AND NOT begins_with(sk, :b)", values, fields)
        rows: dict[str, list[Item]] = {}
        for item in found:
            rows.setdefault(item["pk"], []).append(item)
        whole = []
        for parts in rows.values():
            row = next((part for part in parts if part["sk"] == "row"), None)
            if row is not None:
                mine = [part for part in parts if part.get("id") == row["id"]]
                whole.append(sorted(mine, key=lambda part: part["sk"] != "row"))
        return whole

    def rows(self, search: Search) -> Flow[list[Row]]:
        if search.ids is not None:
            names = [shapes.row_name(id) for id in search.ids]
        elif search.status in CLASSES:
            names = yield from self._names_in_status(search)
        else:
            found = yield from self._all_rows()
            chosen = [row for row in map(shapes.row_of, found) if matches(row, search)]
            chosen.sort(key=lambda row: str(row.id))
            names = [shapes.row_name(row.id) for row in chosen[: search.limit]]
        rows: list[Row] = []
        for start in range(0, len(names), TOGETHER):
            for parts in (yield from self._parts(names[start : start + TOGETHER], payload=True)):
                if parts:
                    row = shapes.row_of(parts)
                    if matches(row, search):
                        rows.append(row)
            if search.ids is None and len(rows) >= search.limit:
                break
        return sorted(rows, key=lambda row: str(row.id))[: search.limit]

    def _names_in_status(self, search: Search) -> Flow[list[str]]:
        """Rows by the sparse index: what is owed or dead, which is little where all goes well."""
        assert search.status is not None
        kind = CLASSES[search.status]
        registered = yield from self._get({"pk": "meta", "sk": "pairs"})
        ids: set[str] = set()
        for pair in sorted(set() if registered is None else registered["p"]):
            source, handler = pair.split("\x1f", 1)
            if search.source in (None, source) and (not handler or search.handler in (None, handler)):
                for item in (yield from self._index("ipk = :pair", {":pair": typed(f"{kind}#{pair}")})):
                    ids.add(item["isk"].partition("#")[2])
        chosen = sorted(id for id in ids if search.after is None or id > str(search.after))
        return [shapes.row_name(id) for id in chosen]

    def counts(self) -> Flow[list[Count]]:
        groups: dict[tuple[str, str | None, Status], tuple[int, int]] = {}
        for parts in (yield from self._all_rows()):
            row = parts[0]
            named = [(part["hh"], Status(part["hs"])) for part in parts if "hh" in part]
            if "st" in row:
                named.append((None, Status(row["st"])))
            for handler, status in named:
                rows, oldest = groups.get((row["src"], handler, status), (0, row["t"]))
                groups[row["src"], handler, status] = (rows + 1, min(oldest, row["t"]))
        return [Count(*name, rows, Instant(oldest)) for name, (rows, oldest) in sorted(groups.items(), key=str)]
