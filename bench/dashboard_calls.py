"""`python -m bench.dashboard_calls [--store sqlite] [--events 1000000]`: how long do the dashboard's calls take?

The store is filled straight into its tables, by default with 1,000,000 events on 100,000 lanes, of which 10,000 are
blocked. Each call is asked a number of times over a kept connection; its p50, p95 and longest are printed, and a p95
above 100 ms is marked. The first answer of each call is not counted: it may have to count what the others are told.

To fill takes minutes, and to measure wants a quiet machine: `--db URL --only fill` fills a database of yours,
`--db URL --only measure` asks a server on it.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sqlite3
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench import many_events, stores
from bench.gateway import gateway
from bench.machine import described, load_average, scratch
from hooklane.core.fanout import places
from hooklane.core.signing import new_secret
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions

P95_MS_MAX = 100.0
_DETAIL = json.dumps(
    {"timings": {"total_ms": 41.5}, "rev": 0, "reason": "422", "response_body": '{"error": "unknown sku"}'}
)

# The last event of every so many lanes is dead, after a few attempts; each has a letter.
_SQLITE = (
    """
    UPDATE hooklane_lane SET head = head - 1, acked = acked - 1, state = 'blocked', attempts = 35, reason = '422',
        since = :now - 1000 * (lane_id % 86400)
    WHERE lane_id % (:lanes / :blocked) = 0
    """,
    """
    INSERT INTO hooklane_dead_letter (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at)
    SELECT 'dlv_' || l.lane_id, 'default', t.endpoint_id, l.lane_id, l.head, e.event_n, 35,
        CASE l.lane_id % 3 WHEN 0 THEN '422' WHEN 1 THEN '503' ELSE 'timeout' END, l.since
    FROM hooklane_lane l JOIN hooklane_lane_tail t USING (lane_id)
    JOIN hooklane_lane_event e ON e.lane_id = l.lane_id AND e.seq = l.head WHERE l.state = 'blocked'
    """,
    """
    INSERT INTO hooklane_attempt (event_at, lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, said)
    SELECT e.created_at, p.lane_id, p.seq, e.created_at + 5, 1, 'default', 12.5, 'delivered', 200, 'applied'
    FROM hooklane_event e JOIN hooklane_lane_event p ON p.event_n = e.n
    """,
    """
    INSERT INTO hooklane_attempt (event_at, lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, detail)
    SELECT e.created_at, l.lane_id, l.head, l.since, 35, 'default', 41.5, 'dead', 422, CAST(:detail AS BLOB)
    FROM hooklane_lane l JOIN hooklane_lane_event p ON p.lane_id = l.lane_id AND p.seq = l.head
    JOIN hooklane_event e ON e.n = p.event_n WHERE l.state = 'blocked'
    """,
)
_POSTGRES = (
    """
    UPDATE hooklane.lane SET head = head - 1, acked = acked - 1, state = 'blocked', attempts = 35, reason = '422',
        since = $1::bigint - 1000 * (lane_id % 86400)
    WHERE lane_id % ($2::bigint / $3::bigint) = 0 AND $4::text IS NOT NULL
    """,
    """
    INSERT INTO hooklane.dead_letter (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at)
    SELECT 'dlv_' || l.lane_id, 'default', t.endpoint_id, l.lane_id, l.head, e.event_n, 35,
        CASE l.lane_id % 3 WHEN 0 THEN '422' WHEN 1 THEN '503' ELSE 'timeout' END, l.since
    FROM hooklane.lane l JOIN hooklane.lane_name t USING (lane_id)
    JOIN hooklane.lane_event e ON e.lane_id = l.lane_id AND e.seq = l.head
    WHERE l.state = 'blocked' AND ($1::bigint, $2::bigint, $3::bigint, $4::text) IS NOT NULL
    """,
    """
    INSERT INTO hooklane.attempt (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, said)
    SELECT p.lane_id, p.seq, e.created_at + 5, 1, 'default', 12.5, 'delivered', 200, 'applied'
    FROM hooklane.event e JOIN hooklane.lane_event p ON p.event_n = e.n
    WHERE ($1::bigint, $2::bigint, $3::bigint, $4::text) IS NOT NULL
    """,
    """
    INSERT INTO hooklane.attempt (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, detail)
    SELECT l.lane_id, l.head, l.since, 35, 'default', 41.5, 'dead', 422, convert_to($4::text, 'UTF8')
    FROM hooklane.lane l WHERE l.state = 'blocked' AND ($1::bigint, $2::bigint, $3::bigint) IS NOT NULL
    """,
)


def calls(blocked_key: str, blocked_event: str) -> list[str]:
    lane = f"lanes/{many_events.ENDPOINT}/{blocked_key}"
    return [
        "overview?range=24h",
        "series?range=24h",
        "series?range=7d",
        "lanes?order=attention&limit=200",
        "lanes?order=attention&state=retrying",
        "lanes?order=attention&state=active",
        "lanes?q=old:99",
        "lanes?q=nothing",
        lane,
        f"{lane}/why",
        "attempts?limit=200",
        "events",
        "events?q=nothing",
        "events?q=evt_zzzz",
        "events?attempts_min=30",
        "events?http=422",
        "events?state=dead&reason=4*",
        f"events/{blocked_event}",
        f"events/{blocked_event}/attempts",
        f"events/{blocked_event}/story",
        "dead-letters?limit=200",
        "dead-letters?key=none",
        "dead-letters?http=5xx",
        "dead-letters/causes",
        "endpoints",
        f"endpoints/{many_events.ENDPOINT}",
        f"endpoints/{many_events.ENDPOINT}/breaker",
        f"endpoints/last-hour?ids={many_events.ENDPOINT}",
        "jobs",
        "plans",
        "audit?actor=nobody",
        "inbox/sources",
    ]


def fill(db: str, events: int, lanes: int, blocked: int) -> None:
    asyncio.run(_make(db))
    now = wall_now()
    many_events.fill(db, events, lanes, now)
    if db.startswith("sqlite:///"):
        conn = sqlite3.connect(Path(db.removeprefix("sqlite:///")), timeout=30)
        try:
            with conn:
                for statement in _SQLITE:
                    conn.execute(statement, {"now": now, "lanes": lanes, "blocked": blocked, "detail": _DETAIL})
        finally:
            conn.close()
    else:
        asyncio.run(_block_postgres(db, now, lanes, blocked))


async def _block_postgres(db: str, now: int, lanes: int, blocked: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(db)
    try:
        for statement in _POSTGRES:
            await connection.execute(statement, now, lanes, blocked, _DETAIL, timeout=600)
        await connection.execute("VACUUM ANALYZE", timeout=600)
    finally:
        await connection.close()


async def _make(db: str) -> None:
    """The tables, and the endpoint that the lanes belong to."""
    store = outbox_store(db, StoreOptions(placer=places))
    await store.open()
    endpoint = Endpoint(
        id=many_events.ENDPOINT,
        url="https://example.test/hooks",
        created_at=Instant(wall_now()),
        keys=(SigningKey(new_secret(b"0" * 32)),),
    )
    await store.save_endpoint(endpoint, expect=None)
    await store.close()


def measure(port: int, rounds: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    [lane] = _ask(connection, "lanes?order=attention&limit=1")["items"]
    slow = 0
    print(f"{'call':<48} {'p50':>8} {'p95':>8} {'max':>8}  ms")
    for path in calls(lane["key"], lane["head_event"]):
        _ask(connection, path)
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            _ask(connection, path)
            took.append(1000 * (time.perf_counter() - began))
        p95 = statistics.quantiles(took, n=20)[-1]
        slow += p95 > P95_MS_MAX
        mark = "  slow" if p95 > P95_MS_MAX else ""
        print(f"{path[:48]:<48} {statistics.median(took):8.1f} {p95:8.1f} {max(took):8.1f}{mark}", flush=True)
    return slow


def _ask(connection: http.client.HTTPConnection, path: str) -> dict[str, list[dict[str, str]]]:
    connection.request("GET", f"/api/v1/{path}")
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        sys.exit(f"{path}: {response.status} {body[:300]!r}")
    told: dict[str, list[dict[str, str]]] = json.loads(body)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--db", help="a database of yours, instead of a new one of each kind")
    parser.add_argument("--only", choices=("fill", "measure"))
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--lanes", type=int, default=100_000)
    parser.add_argument("--blocked", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    slow = 0
    for name in ("yours",) if asked.db else asked.store or ("sqlite", "postgres"):
        with ExitStack() as stack:
            folder = stack.enter_context(scratch())
            kind = stores.sqlite if name == "sqlite" else stores.postgres
            db = asked.db or stack.enter_context(kind(folder)).fresh()
            if asked.only != "measure":
                began = time.monotonic()
                fill(db, asked.events, asked.lanes, asked.blocked)
                print(f"filled in {time.monotonic() - began:.0f} s")
            if asked.only != "fill":
                counts = f"{asked.events:,} events, {asked.lanes:,} lanes, {asked.blocked:,} blocked"
                print(f"\n{db.partition(':')[0]}: {counts}; {described()}, load {load_average()}")
                one = stack.enter_context(gateway(db, folder, role="api"))
                slow += measure(one.port, asked.rounds)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
