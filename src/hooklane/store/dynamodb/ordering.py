"""Order on DynamoDB: a track is an item, held by a lease and written under its version; it knows what is owed to it."""

from __future__ import annotations

from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Gap, RowId, Track
from hooklane.model.message import Status
from hooklane.store.dynamodb import items as shapes
from hooklane.store.dynamodb.base import META, After, Base, Later, track_key
from hooklane.store.dynamodb.changes import Change, Changes
from hooklane.store.dynamodb.items import Item, plain, typed
from hooklane.store.dynamodb.session import Api, Refused
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import TrackState, Waiting
from hooklane.store.without_tx.names import track_name
from hooklane.store.without_tx.order_cursors import TrackVerbs, gap_of

LOCK_MS = 60_000


class Ordering(Base, TrackVerbs):
    """How a track is held, read and written."""

    def _take_track(self, track: Track, token: str) -> Flow[TrackState | None]:
        # There is no clock in DynamoDB, so the lease of a track is by the clocks of its holders; the version decides.
        now = wall_now()
        change = Change(track_key(track_name(track)), assign={"lk": token, "lu": now + LOCK_MS})
        change.set_if_absent["n"] = shapes.track_names(track)
        # One that ends later than it can was taken before a clock was set back.
        free = "attribute_not_exists({lk}) OR {lk} = :token OR {lu} < :now OR {lu} > :latest"
        change.when(free, token=token, now=now, latest=now + 2 * LOCK_MS)
        answer = yield Api("update_item", change.params(self.table)[1] | {"ReturnValues": "ALL_NEW"})
        return None if isinstance(answer, Refused) else shapes.track_of(plain(answer["Attributes"]))

    def _read_track(self, track: Track) -> Flow[TrackState | None]:
        found = yield from self._get(track_key(track_name(track)))
        return None if found is None else shapes.track_of(found)

    def _write_track(self, state: TrackState, changes: Changes, after: After, token: str) -> None:
        key = track_key(track_name(state.track))
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
        change = Change(track_key(track_name(track)), remove={"lk", "lu"})
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
            "tn": track.account,
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
        found = yield from self._get(META | {"sk": "counter"})
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


def _has_held(state: TrackState, change: Change) -> bool:
    """Whether the track has held messages once *change* is written."""
    held = {str(each.id) for each in state.waiting.values() if each.status is Status.HELD}
    for name, line in change.assign.items():
        if name.startswith("w#"):
            held.discard(name[2:])
            if line.startswith("held|"):
                held.add(name[2:])
    return bool(held - {name[2:] for name in change.remove if name.startswith("w#")})
