"""The verbs of the inbox in SQL: what SQLite and PostgreSQL have in common, written once.

Each verb yields named statements (see `queries.sql` of the back-end) and returns values of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import (
    Claimed,
    Count,
    Gap,
    Handling,
    HandlingFailure,
    Heartbeat,
    Identity,
    Known,
    NewHandling,
    Row,
    RowId,
    Search,
    Track,
)
from hooklane.model.jumps import JUMP_MS, set_back
from hooklane.model.message import Status
from hooklane.store.inbox import Flow
from hooklane.store.sql.queries import Many, Sql
from hooklane.store.sql.rows import (
    Line,
    claimed_of,
    handlers_params,
    handling_of,
    handling_params,
    identity_params,
    ids_params,
    known_of,
    row_of,
    search_params,
    track_order,
    track_params,
    without_nul,
)

SHORT_MS = 10_000


class SqlInbox:
    """Verbs only; a back-end adds sessions, and overrides what it can do in fewer round trips."""

    # Receiving

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        answers = yield Many("known", [identity_params(identity) for identity in identities])
        return [known_of(lines) for lines in answers]

    def try_lock(self, identity: Identity) -> Flow[bool]:
        yield from ()
        return True

    def remember(self, source: str, account: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        params = {"source": source, "account": account, "digest": digest, "event_id": event_id, "now": now}
        if (yield Sql("remember", params)):
            return None
        lines = yield Sql("remembered", {"source": source, "account": account, "digest": digest})
        return str(lines[0][0]) if lines else None

    def turn(self, track: Track, token: str) -> Flow[tuple[int, bool]]:
        lines = yield Sql("turn", {**track_params(track), "token": token})
        if lines:
            return lines[0][0], True
        return (yield Sql("applied", track_params(track)))[0][0], False

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        yield Many("count_copies", [{"id": id, "copies": number} for id, number in copies])

    # Handling

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        params = {"now": now, "lease_ms": lease_ms, "limit": limit, **handlers_params(handlers)}
        taken = yield Sql("claim_expired" if expired else "claim", params)
        return (yield from self._with_messages(taken))

    def claim_one(self, id: RowId, handler: str, *, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        params = {"row_id": id, "handler": handler, "now": now, "lease_ms": lease_ms}
        taken = yield Sql("claim_one", params)
        claimed = yield from self._with_messages(taken)
        return claimed[0] if claimed else None

    def _with_messages(self, taken: Sequence[Line]) -> Flow[list[Claimed]]:
        if not taken:
            return []
        lines = yield Sql("messages", ids_params(line[0] for line in taken))
        by_id = {line[0]: row_of(line, ()) for line in lines}
        claimed = [claimed_of(line, by_id[line[0]]) for line in taken]
        # The database hands claimed lines back in any order; handlers see the oldest first.
        return sorted(claimed, key=lambda each: (each.received_at, each.id))

    def renew(self, id: RowId, handler: str, fence: int, *, now: Instant, lease_ms: int) -> Flow[bool]:
        lines = yield Sql("renew", {"row_id": id, "handler": handler, "fence": fence, "now": now, "lease_ms": lease_ms})
        return bool(lines)

    def complete(self, id: RowId, handler: str, fence: int, status: Status, now: Instant) -> Flow[bool]:
        params = {"row_id": id, "handler": handler, "fence": fence, "status": str(status), "now": now}
        return bool((yield Sql("complete", params)))

    def fail(self, id: RowId, handler: str, fence: int, failure: HandlingFailure) -> Flow[bool]:
        params = {
            "row_id": id,
            "handler": handler,
            "fence": fence,
            "status": str(failure.status),
            "due_at": failure.due_at,
            "error": without_nul(failure.error),
            "traceback": without_nul(failure.traceback),
            "now": failure.now,
            "attempts": failure.attempts,
        }
        return bool((yield Sql("fail", params)))

    # Order

    def cursor(self, track: Track, baseline: int) -> Flow[int]:
        yield Sql("begin_cursor", {**track_params(track), "baseline": baseline})
        lines = yield Sql("cursor", track_params(track))
        return int(lines[0][0])

    def cursors(self, tracks: Mapping[Track, int]) -> Flow[dict[Track, int]]:
        ordered = sorted(tracks, key=track_order)
        found: dict[Track, int] = {}
        for track in ordered:
            found[track] = yield from self.cursor(track, tracks[track])
        return found

    def applied(self, track: Track) -> Flow[int | None]:
        lines = yield Sql("applied", track_params(track))
        return int(lines[0][0]) if lines else None

    def advance(self, track: Track, *, prev_seq: int, seq: int) -> Flow[bool]:
        return bool((yield Sql("advance", {**track_params(track), "prev_seq": prev_seq, "seq": seq})))

    def release(self, track: Track, seq: int, now: Instant) -> Flow[int]:
        return len((yield Sql("release", {**track_params(track), "seq": seq, "now": now})))

    def arrived(self, places: Sequence[tuple[Track, int]]) -> Flow[list[bool]]:
        answers = yield Many("arrived", [{**track_params(track), "seq": seq} for track, seq in places])
        return [bool(lines) for lines in answers]

    def newer(self, track: Track, at: int, tie: str) -> Flow[bool]:
        return bool((yield Sql("newer", {**track_params(track), "at": at, "tie": tie})))

    def mark(self, track: Track) -> Flow[tuple[int, str] | None]:
        yield Sql("touch", track_params(track))
        at, tie = (yield Sql("mark", track_params(track)))[0]
        return None if at is None else (at, tie)

    def touch(self, track: Track) -> Flow[None]:
        yield Sql("touch", track_params(track))

    def coalesce(self, track: Track, until: RowId, now: Instant) -> Flow[int]:
        return len((yield Sql("coalesce", {**track_params(track), "until": until, "now": now})))

    def latest_row(self) -> Flow[RowId]:
        lines = yield Sql("latest_row", {})
        return int(lines[0][0])

    def gaps(self, before: Instant, limit: int) -> Flow[list[Gap]]:
        lines = yield Sql("gaps", {"before": before, "limit": limit})
        return [
            Gap(Track(source, account, handler, key), int(seq), int(prev_seq), Instant(int(since)))
            for source, account, handler, key, seq, prev_seq, since in lines
        ]

    # Keeping

    def reopen(self, id: RowId, handler: str, *, now: Instant, was: Status | None = None) -> Flow[bool]:
        return bool((yield Sql("reopen", {"row_id": id, "handler": handler, "now": now, "was": was and str(was)})))

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        yield Sql("attach", handling_params(id, None, handling))
        yield Sql("let_handlings_speak", {"row_id": id})

    def restate(self, id: RowId, status: Status, reason: str, now: Instant, *, was: Status) -> Flow[bool]:
        params = {"row_id": id, "status": str(status), "reason": without_nul(reason), "was": str(was)}
        return bool((yield Sql("restate", params)))

    def settle(
        self, id: RowId, handler: str, status: Status, note: str, now: Instant, *, was: Status | None = None
    ) -> Flow[bool]:
        params = {"row_id": id, "handler": handler, "status": str(status), "note": without_nul(note), "now": now}
        return bool((yield Sql("settle", params | {"was": was and str(was)})))

    def heartbeat(self) -> Flow[Heartbeat | None]:
        lines = yield Sql("heartbeat", {})
        if not lines:
            return None
        seen_at, down_ms, down_until = lines[0]
        return Heartbeat(Instant(seen_at), down_ms, Instant(down_until))

    def beat(self, heartbeat: Heartbeat) -> Flow[None]:
        params = {
            "seen_at": heartbeat.seen_at,
            "down_ms": heartbeat.down_ms,
            "down_until": heartbeat.down_until,
        }
        yield Sql("beat", params)

    def keep_clock(self, now: Instant, said: Instant = START) -> Flow[int]:
        lines = yield Sql("clock", {"now": now})
        if not lines:
            return 0
        last, here = Instant(lines[0][0]), Instant(lines[0][1])
        by = set_back(last, here)
        # A wait is over by whichever clock is further: the database's, or ours if that was not set back with it.
        waits_by = by - max(0, now - here)
        if by:
            yield Sql("move_leases", {"by": by, "now": here})
        if waits_by > 0:
            yield Sql("move_waits", {"by": waits_by, "now": here})
        own = set_back(said, now) - max(0, waits_by)
        if own > JUMP_MS:
            # This process was ahead, and the note does not tell of it: what waits by its clock comes early, not late.
            # What others have moved already, or what waits by theirs for a moment, stays as it is.
            yield Sql("move_waits", {"by": own, "now": now + min(own // 2, SHORT_MS)})
        yield Sql("note_clock", {"now": here})
        return max(by, own)

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("prune", {"before": before, "source": source, "limit": limit})))

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("purge", {"before": before, "source": source, "limit": limit})))

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("forget", {"before": before, "source": source, "limit": limit})))

    # Reading

    def rows(self, search: Search) -> Flow[list[Row]]:
        return (yield from self._found("search", search))

    def newest_rows(self, search: Search) -> Flow[list[Row]]:
        return (yield from self._found("search_newest", search))[::-1]

    def _found(self, statement: str, search: Search) -> Flow[list[Row]]:
        found = [line[0] for line in (yield Sql(statement, search_params(search)))]
        if not found:
            return []
        lines = yield Sql("messages", ids_params(found))
        handlings: dict[RowId, list[Handling]] = {}
        for line in (yield Sql("handlings", ids_params(found))):
            handlings.setdefault(line[0], []).append(handling_of(line[1:]))
        rows = [row_of(line, tuple(handlings.get(line[0], ()))) for line in lines]
        return sorted(rows, key=lambda row: row.id)

    def counts(self) -> Flow[list[Count]]:
        lines = yield Sql("counts", {})
        return [
            Count(source, handler, Status(status), rows, Instant(at)) for source, handler, status, rows, at in lines
        ]
