"""The inbox in PostgreSQL: many workers on many hosts, batches in one statement, leases by the database's clock."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Claimed, Identity, Known, NewRow, RowId, Track
from hooklane.store.caller import Dialect
from hooklane.store.inbox import Capabilities, Flow
from hooklane.store.postgres.address import check_address
from hooklane.store.postgres.encoding import check_encodings
from hooklane.store.postgres.inbox.connections import AsyncpgConnections, PsycopgConnections, has_asyncpg, need_psycopg
from hooklane.store.postgres.inbox.front import Front
from hooklane.store.sql.borrowed import BorrowedInbox, Verbs
from hooklane.store.sql.inbox import SqlInbox
from hooklane.store.sql.queries import Sql, queries_of
from hooklane.store.sql.rows import (
    handlers_params,
    handling_params,
    identity_params,
    known_of,
    row_params,
    track_order,
    track_params,
)

_QUERIES = queries_of("hooklane.store.sql", "hooklane.store.postgres.inbox")

_ROW_ARRAYS = {
    "account": "accounts",
    "source": "sources",
    "event_id": "event_ids",
    "variant": "variants",
    "type": "types",
    "key": "keys",
    "seq": "seqs",
    "prev_seq": "prev_seqs",
    "event_time": "event_times",
    "delivery_id": "delivery_ids",
    "attempt": "attempts",
    "id_signed": "id_signeds",
    "fingerprint": "fingerprints",
    "body": "bodies",
    "headers": "headers",
    "status": "statuses",
    "reason": "reasons",
    "received_at": "received_ats",
}
_HANDLING_ARRAYS = {
    "handler": "h_handlers",
    "status": "h_statuses",
    "due_at": "h_due_ats",
    "attempts": "h_attempts",
    "key": "h_keys",
    "seq": "h_seqs",
    "prev_seq": "h_prev_seqs",
    "error": "h_errors",
    "traceback": "h_tracebacks",
    "settled_at": "h_settled_ats",
}
_NO_HANDLING: dict[str, Any] = dict.fromkeys(f"h_{name}" for name in _HANDLING_ARRAYS)
_IDENTITY_ARRAYS = {"source": "sources", "account": "accounts", "event_id": "event_ids", "variant": "variants"}
_TRACK_ARRAYS = {"source": "sources", "account": "accounts", "handler": "handlers", "key": "keys"}


class PostgresVerbs(SqlInbox):
    """What PostgreSQL can do in one round trip where SQLite takes several statements."""

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        if len(rows) == 1 and len(rows[0].handlings) <= 1:
            lines = yield Sql("insert_row", row_params(rows[0]) | _only_handling(rows[0]))
            return [lines[0][0] if lines else None]
        # Of two copies in one batch the first counts; ON CONFLICT would let both join their handlings.
        first: dict[Identity, NewRow] = {}
        for row in rows:
            first.setdefault(row.identity, row)
        # In one order that all use: two batches with the same events would otherwise wait for each other.
        unique = sorted(first.values(), key=lambda row: _order(row.identity))
        params = _arrays([row_params(row) for row in unique], _ROW_ARRAYS)
        owed = [(row, handling_params(0, row, handling)) for row in unique for handling in row.handlings]
        params |= _arrays([each for _, each in owed], _HANDLING_ARRAYS)
        params |= {f"h_{name}": values for name, values in _identities([row.identity for row, _ in owed]).items()}
        lines = yield Sql("insert_rows", params)
        ids = {Identity(source, account, event_id, variant): id for id, source, account, event_id, variant in lines}
        return [ids.get(row.identity) if first[row.identity] is row else None for row in rows]

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        if len(identities) == 1:
            return [known_of((yield Sql("known", identity_params(identities[0]))))]
        lines = yield Sql("known_all", _identities(identities))
        groups: dict[int, list[Any]] = {}
        for line in lines:
            groups.setdefault(int(line[0]) - 1, []).append(line[1:])
        return [known_of(groups.get(number, ())) for number in range(len(identities))]

    def turn(self, track: Track, token: str) -> Flow[tuple[int, bool]]:
        generation, turned = yield from super().turn(track, token)
        if not turned:  # a duplicate is answered from it
            yield Sql("wait_for_standby", {})
        return generation, turned

    def cursors(self, tracks: Mapping[Track, int]) -> Flow[dict[Track, int]]:
        ordered = sorted(tracks, key=track_order)
        params = _tracks(ordered)
        yield Sql("begin_cursors", params | {"baselines": [tracks[track] for track in ordered]})
        lines = yield Sql("cursors", params)
        return {Track(source, account, handler, key): seq for source, account, handler, key, seq in lines}

    def arrived(self, places: Sequence[tuple[Track, int]]) -> Flow[list[bool]]:
        params = _tracks([track for track, _ in places]) | {"seqs": [seq for _, seq in places]}
        here = {int(line[0]) - 1 for line in (yield Sql("arrived", params))}
        return [number in here for number in range(len(places))]

    @cached_property
    def _fronts(self) -> Mapping[str, Front]:
        return {"claim": Front(), "claim_expired": Front()}

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        name = "claim_expired" if expired else "claim"
        front = self._fronts[name]
        since, began = front.since(), time.monotonic()
        params = {"now": now, "lease_ms": lease_ms, "limit": limit, "since": since}
        lines = yield Sql(name, params | handlers_params(handlers))
        front.note(since, time.monotonic() - began, [line[-1] for line in lines], now)
        return (yield from self._with_messages([line[:-1] for line in lines]))

    def keep_clock(self, now: Instant, said: Instant = START) -> Flow[int]:
        by = yield from super().keep_clock(now, said)
        if by:  # what is due may be before all that was
            for front in self._fronts.values():
                front.rewind()
        return by

    def try_lock(self, identity: Identity) -> Flow[bool]:
        name = f"hooklane\x1f{identity.source}\x1f{identity.account}\x1f{identity.event_id}"
        lines = yield Sql("try_lock", {"name": name})
        return bool(lines[0][0])

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        yield Sql("count_copies", {"copies": json.dumps(list(copies))})


VERBS = Verbs(
    dialect=Dialect.POSTGRESQL,
    queries=_QUERIES,
    migrations="hooklane.store.postgres.inbox.migrations",
    capabilities=Capabilities(
        name="postgresql",
        atomic=True,
        durable=True,
        survives_failover=True,
        native_async=True,
        locks=True,
        outbox=True,
    ),
)


class PostgresInbox(PostgresVerbs, BorrowedInbox):
    """The schema `hooklane` of a PostgreSQL database."""

    def _migration(self) -> Flow[bool]:
        yield from check_encodings()
        return (yield from super()._migration())


def by_url(url: str) -> PostgresInbox:
    """The inbox at *url*: sync handlers get psycopg connections, async ones asyncpg's."""
    need_psycopg()
    plain = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
    check_address(plain)
    return PostgresInbox(
        VERBS,
        what="PostgreSQL",
        sync=PsycopgConnections(plain),
        native_async=AsyncpgConnections(plain) if has_asyncpg() else None,
    )


def _only_handling(row: NewRow) -> dict[str, Any]:
    """The parameters of the only handling that *row* has, all NULL where it has none."""
    if not row.handlings:
        return _NO_HANDLING
    params = handling_params(0, row, row.handlings[0])
    return {f"h_{name}": params[name] for name in _HANDLING_ARRAYS}


def _arrays(params: Sequence[dict[str, Any]], names: dict[str, str]) -> dict[str, Any]:
    return {plural: [each[name] for each in params] for name, plural in names.items()}


def _tracks(tracks: Sequence[Track]) -> dict[str, Any]:
    return _arrays([track_params(track) for track in tracks], _TRACK_ARRAYS)


def _order(identity: Identity) -> tuple[str, str, str, str]:
    return (identity.source, identity.account, identity.event_id, identity.variant)


def _identities(identities: Sequence[Identity]) -> dict[str, Any]:
    return _arrays([identity_params(identity) for identity in identities], _IDENTITY_ARRAYS)
