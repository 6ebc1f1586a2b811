"""The verbs of the inbox in SQL: what SQLite and PostgreSQL have in common, written once.

Each verb yields named statements (see `queries.sql` of the back-end) and returns values of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.inbox import (
    Claimed,
    Count,
    Gap,
    Handling,
    Heartbeat,
    Identity,
    Known,
    NewHandling,
    NewRow,
    Row,
    RowId,
    Search,
    Track,
)
from hooklane.model.message import Message, Status
from hooklane.store.inbox import Flow
from hooklane.store.sql.queries import Many, Sql

Line = Sequence[Any]


class SqlInbox:
    """Verbs only; a back-end adds sessions, and overrides what it can do in fewer round trips."""

    # Receiving

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        answers = yield Many("insert_row", [row_params(row) for row in rows])
        ids: list[RowId | None] = [lines[0][0] if lines else None for lines in answers]
        owed = [
            handling_params(id, row, handling)
            for id, row in zip(ids, rows, strict=True)
            if id is not None
            for handling in row.handlings
        ]
        if owed:
            yield Many("insert_handling", owed)
        return ids

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        answers = yield Many("known", [identity_params(identity) for identity in identities])
        return [known_of(lines) for lines in answers]

    def try_lock(self, identity: Identity) -> Flow[bool]:
        yield from ()
        return True

    def remember(self, source: str, tenant: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        params = {"source": source, "tenant": tenant, "digest": digest, "event_id": event_id, "now": now}
        if (yield Sql("remember", params)):
            return None
        lines = yield Sql("remembered", {"source": source, "tenant": tenant, "digest": digest})
        return str(lines[0][0]) if lines else None

    def turn(self, track: Track, token: str) -> Flow[int | None]:
        lines = yield Sql("turn", {**track_params(track), "token": token})
        return lines[0][0] if lines else None

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        yield Many("count_copies", [{"id": id, "copies": number} for id, number in copies])

    # Handling

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, owner: str, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        params = {"owner": owner, "now": now, "lease_ms": lease_ms, "limit": limit, **handlers_params(handlers)}
        taken = yield Sql("claim_expired" if expired else "claim", params)
        return (yield from self._with_messages(taken))

    def claim_one(self, id: RowId, handler: str, *, owner: str, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        params = {"row_id": id, "handler": handler, "owner": owner, "now": now, "lease_ms": lease_ms}
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
        params = {
            "row_id": id,
            "handler": handler,
            "fence": fence,
            "status": str(status),
            "due_at": due_at,
            "error": without_nul(error),
            "traceback": without_nul(traceback),
            "now": now,
            "attempts": attempts,
        }
        return bool((yield Sql("fail", params)))

    # Order

    def cursor(self, track: Track, baseline: int) -> Flow[int]:
        yield Sql("begin_cursor", {**track_params(track), "baseline": baseline})
        lines = yield Sql("cursor", track_params(track))
        return int(lines[0][0])

    def applied(self, track: Track) -> Flow[int | None]:
        lines = yield Sql("applied", track_params(track))
        return int(lines[0][0]) if lines else None

    def advance(self, track: Track, *, prev_seq: int, seq: int) -> Flow[bool]:
        return bool((yield Sql("advance", {**track_params(track), "prev_seq": prev_seq, "seq": seq})))

    def release(self, track: Track, seq: int, now: Instant) -> Flow[int]:
        return len((yield Sql("release", {**track_params(track), "seq": seq, "now": now})))

    def arrived(self, track: Track, seq: int) -> Flow[bool]:
        return bool((yield Sql("arrived", {**track_params(track), "seq": seq})))

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
            Gap(Track(source, tenant, handler, key), int(seq), int(prev_seq), Instant(int(since)))
            for source, tenant, handler, key, seq, prev_seq, since in lines
        ]

    # Keeping

    def reopen(self, id: RowId, handler: str, *, now: Instant) -> Flow[bool]:
        return bool((yield Sql("reopen", {"row_id": id, "handler": handler, "now": now})))

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        yield Sql("attach", handling_params(id, None, handling))

    def settle(self, id: RowId, handler: str, status: Status, note: str, now: Instant) -> Flow[bool]:
        params = {"row_id": id, "handler": handler, "status": str(status), "note": without_nul(note), "now": now}
        return bool((yield Sql("settle", params)))

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

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("prune", {"before": before, "source": source, "limit": limit})))

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("purge", {"before": before, "source": source, "limit": limit})))

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return len((yield Sql("forget", {"before": before, "source": source, "limit": limit})))

    # Reading

    def rows(self, search: Search) -> Flow[list[Row]]:
        found = [line[0] for line in (yield Sql("search", search_params(search)))]
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


# Values to parameters


def row_params(row: NewRow) -> dict[str, Any]:
    message = row.message
    return {
        "tenant": message.tenant,
        "source": message.source,
        "event_id": message.event_id,
        "variant": row.variant,
        "type": message.type,
        "key": message.key,
        "seq": message.seq,
        "prev_seq": message.prev_seq,
        "event_time": message.event_time,
        "delivery_id": message.delivery_id,
        "attempt": message.attempt,
        "id_signed": int(message.id_signed),
        "fingerprint": message.fingerprint,
        "body": message.body,
        "headers": json.dumps(row.headers) if row.headers else "[]",
        "status": row.status.value,
        "reason": row.reason,
        "received_at": row.received_at,
    }


def handling_params(id: RowId, row: NewRow | None, handling: NewHandling) -> dict[str, Any]:
    scope = {} if row is None else {"tenant": row.message.tenant, "source": row.message.source}
    return scope | {
        "row_id": id,
        "handler": handling.handler,
        "status": handling.status.value,
        "due_at": handling.due_at,
        "attempts": handling.attempts,
        "key": handling.key,
        "seq": handling.seq,
        "prev_seq": handling.prev_seq,
        "error": None if handling.error is None else without_nul(handling.error),
        "traceback": None if handling.traceback is None else without_nul(handling.traceback),
        "settled_at": handling.settled_at,
    }


def identity_params(identity: Identity) -> dict[str, Any]:
    return {
        "source": identity.source,
        "tenant": identity.tenant,
        "event_id": identity.event_id,
        "variant": identity.variant,
    }


def track_params(track: Track) -> dict[str, Any]:
    return {"source": track.source, "tenant": track.tenant, "handler": track.handler, "key": track.key}


def handlers_params(handlers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"handlers": json.dumps(list(handlers))}


def ids_params(ids: Iterable[RowId]) -> dict[str, Any]:
    return {"ids": json.dumps(list(dict.fromkeys(ids)))}


def search_params(search: Search) -> dict[str, Any]:
    return {
        "ids": None if search.ids is None else json.dumps(list(search.ids)),
        "source": search.source,
        "tenant": search.tenant,
        "status": None if search.status is None else search.status.value,
        "handler": search.handler,
        "type": search.type,
        "key": search.key,
        "event_id": search.event_id,
        "received_from": search.received_from,
        "received_until": search.received_until,
        "after": search.after,
        "limit": search.limit,
    }


def without_nul(text: str) -> str:
    """What a handler raised is anybody's text; PostgreSQL has no NUL, and no database has lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


# Lines to values


def known_of(lines: Sequence[Line]) -> Known | None:
    if not lines:
        return None
    id, status, fingerprint = lines[0][:3]
    handlings = tuple(
        Handling(
            handler=handler,
            status=Status(state),
            attempts=attempts,
            due_at=Instant(due_at),
            fence=fence,
            key=key,
            error=error,
        )
        for _, _, _, handler, state, attempts, due_at, fence, key, error in lines
        if handler is not None
    )
    return Known(id=id, status=Status(status), fingerprint=bytes(fingerprint), handlings=handlings)


def handling_of(line: Line) -> Handling:
    handler, status, attempts, due_at, fence, key, error, traceback, settled_at = line
    return Handling(
        handler=handler,
        status=Status(status),
        attempts=attempts,
        due_at=Instant(due_at),
        fence=fence,
        key=key,
        error=error,
        traceback=traceback,
        settled_at=None if settled_at is None else Instant(settled_at),
    )


def row_of(line: Line, handlings: tuple[Handling, ...]) -> Row:
    (id, tenant, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id, attempt, id_signed,
     fingerprint, body, headers, status, reason, copies, received_at) = line  # fmt: skip
    message = Message(
        source=source,
        event_id=event_id,
        type=type,
        body=b"" if body is None else bytes(body),
        tenant=tenant,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        event_time=None if event_time is None else Instant(event_time),
        delivery_id=delivery_id,
        attempt=attempt,
        fingerprint=bytes(fingerprint),
        id_signed=bool(id_signed),
    )
    return Row(
        id=id,
        message=message,
        status=Status(status),
        received_at=Instant(received_at),
        variant=variant,
        reason=reason,
        copies=copies,
        purged=body is None,
        headers=tuple((name, value) for name, value in json.loads(headers)),
        handlings=handlings,
    )


def claimed_of(line: Line, row: Row) -> Claimed:
    _, handler, fence, attempts, key, seq, prev_seq, was = line
    return Claimed(
        id=row.id,
        handler=handler,
        fence=fence,
        attempts=attempts,
        message=row.message,
        received_at=row.received_at,
        variant=row.variant,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        taken_over=was == Status.IN_PROGRESS,
        headers=row.headers,
    )
