"""Three workers on one PostgreSQL, killed, frozen beyond their leases, and with the database crashed under them."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest
from tests.faults.crash.serving import Server, Site
from tests.faults.crash.traffic import Client, Load, Receiver
from tests.support.postgres import PostgresServer
from tests.support.processes import free_port

from hooklane.testing.arrivals import tally

WORKERS, CLIENTS, KEYS_EACH = 3, 10, 20
LEASE_MS = 1_500
FROZEN_S = 2.2


@pytest.mark.parametrize("faults", [8, pytest.param(24, marks=pytest.mark.soak)])
async def test_s11_workers_and_the_database_crash_and_every_key_arrives_in_order(
    nursery, crash_postgres: PostgresServer, tmp_path, faults: int
):
    chance = random.Random(7)
    address = crash_postgres.address
    url = address.create_database("crash")
    # A fifth of the answers are failures, and one in fifty never comes.
    async with Receiver(lambda _key, _seq: chance.choices((200, 503, 0), (78, 20, 2))[0]) as receiver:
        site = Site(nursery, url, tmp_path)
        ports = [free_port() for _ in range(WORKERS)]

        async def serve(slot: int) -> Server:
            server = await site.serve(port=ports[slot], lease_ms=LEASE_MS)
            await server.ready()
            return server

        try:
            workers = [await serve(slot) for slot in range(WORKERS)]
            await _make_endpoint(ports[0], receiver.url)
            load = Load(ports, clients=CLIENTS, keys_each=KEYS_EACH)
            async with asyncio.TaskGroup() as group:
                loading = group.create_task(load.run())
                for number in range(faults):
                    await asyncio.sleep(chance.uniform(0.1, 0.5))
                    slot = chance.randrange(WORKERS)
                    if number == faults // 2:
                        await asyncio.to_thread(crash_postgres.stop_immediate)
                        await asyncio.to_thread(crash_postgres.start)
                    elif number % 4 == 3:
                        workers[slot].freeze()
                        await asyncio.sleep(FROZEN_S)
                        workers[slot].thaw()
                    else:
                        await workers[slot].kill()
                        workers[slot] = await serve(slot)
                load.stop()
                await loading
            await receiver.has(load.accepted, within_s=90)
            for worker in workers:
                await worker.stop()
        finally:
            await site.close()
    seen = tally(load.accepted, receiver.arrivals(), {})

    assert seen.violations == ()
    assert (seen.lost, seen.reordered) == (0, 0)
    assert load.events > CLIENTS * KEYS_EACH
    assert _successes_recorded_twice(url) == []
    print(f"{faults} faults, {load.events} events, {seen.duplicates} copies whose first outcome was unknown")


async def _make_endpoint(port: int, url: str) -> None:
    client = Client(port)
    options = {"backoff_ms": 20, "backoff_cap_ms": 200, "attempts_max": 1_000}
    status, answer = await client.call("POST", "/api/v1/endpoints", {"url": url, **options})
    assert status == 201, answer
    client.close()


def _successes_recorded_twice(url: str) -> list[tuple[int, int]]:
    """Whose second copy was sent though the first one's success was durable: it would be recorded again."""
    with psycopg.connect(url) as conn:
        return conn.execute(
            "SELECT lane_id, seq FROM hooklane.attempt WHERE outcome = 'delivered' GROUP BY 1, 2 HAVING count(*) > 1"
        ).fetchall()
