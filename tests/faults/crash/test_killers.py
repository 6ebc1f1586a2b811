"""One event that kills whichever process sends it, among hundreds that fly with it: only that one is given up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.faults.crash.serving import Server, Site
from tests.faults.crash.traffic import Client, Receiver
from tests.support.eventually import eventually

KEYS, EACH = 300, 2
KILLER, KEY = "evt_killer", "key 0"
CRASHES_MAX = 9
"""Once unseen, twice in company, six times alone."""
FAILPOINT = f"before_send=kill:{KILLER}"
# Who stalls for longer than its lease is taken for dead, by itself too, and whoever went alone meanwhile is charged for
# it. A busy machine stalls for a second; on SQLite nobody waits for a lease to run out, so there it may be long.
LEASE_MS, TAKEOVER_MS = 20_000, 2_000


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request, nursery, tmp_path):
    """A database of either kind to serve from; on PostgreSQL a lease must run out before a takeover."""
    url = f"sqlite:///{tmp_path}/hooklane.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    site = Site(nursery, url, tmp_path)
    yield site
    await site.close()


async def serve(site: Site) -> Server:
    """A process that dies of the killer."""
    kind, _, _ = site.db.partition(":")
    return await site.serve(failpoints=FAILPOINT, lease_ms=LEASE_MS if kind == "sqlite" else TAKEOVER_MS)


async def call(site: Site, method: str, path: str, body: Any = None) -> Any:
    client = Client(site.port)
    status, answer = await client.call(method, f"/api/v1/{path}", body)
    client.close()
    assert status < 300, answer
    return answer


async def settle_in(site: Site, receiver: Receiver, **rules: Any) -> dict[str, list[str]]:
    """Events in many keys, the killer first of all, and a process that dies as soon as they may be sent."""
    server = await site.serve()
    await server.ready()
    rules = {"url": receiver.url, "in_flight_max": 1_000, "backoff_ms": 20, **rules}
    endpoint = (await call(site, "POST", "endpoints", rules))["id"]
    await call(site, "POST", f"endpoints/{endpoint}/pause")
    accepted: dict[str, list[str]] = {}
    for n in range(EACH):
        events = [{"type": "a.b", "key": f"key {key}", "data": n} for key in range(KEYS)]
        events[0] |= {"id": KILLER} if n == 0 else {}
        for one in (await call(site, "POST", "events/batch", {"events": events}))["events"]:
            accepted.setdefault(one["key"], []).append(one["id"])
    await server.stop()
    server = await serve(site)
    await server.ready()
    with contextlib.suppress(ConnectionError):
        await call(site, "POST", f"endpoints/{endpoint}/resume")
    await server.ended()
    return accepted


async def serve_until_it_lives(site: Site) -> tuple[Server, int]:
    """Start it again whenever it dies; the process that has done with the killer, and how many had to die for it."""
    for crashes in range(1, CRASHES_MAX + 1):
        server = await serve(site)
        ended = asyncio.create_task(server.ended())
        done = asyncio.create_task(past_the_killer(site))
        await asyncio.wait((ended, done), return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            ended.cancel()
            done.result()
            return server, crashes
        done.cancel()
    raise AssertionError(f"it died more than {CRASHES_MAX} times")


async def past_the_killer(site: Site) -> None:
    """Until the killer was given up, as far as anybody can tell from outside."""

    async def is_given_up() -> bool:
        try:
            deliveries = (await call(site, "GET", f"events/{KILLER}"))["deliveries"]
        except OSError:
            return False  # it is being started, or has just died
        return deliveries[0]["state"] in ("dead", "skipped")

    await eventually(is_given_up, within_s=60)


async def test_s11_an_event_that_kills_its_worker_is_given_up_and_nobody_else_suffers(site, receiver):
    accepted = await settle_in(site, receiver, attempts_max=4)

    _, crashes = await serve_until_it_lives(site)
    innocent = {key: ids for key, ids in accepted.items() if key != KEY}
    await receiver.has(innocent)

    (letter,) = (await call(site, "GET", "dead-letters"))["items"]
    assert (letter["event"], letter["reason"], letter["attempts"]) == (KILLER, "worker_died", 4)
    assert letter["waiting"] == EACH - 1  # its own key stands still, until a person acts
    assert 0 < crashes <= CRASHES_MAX
    assert {one.attempt for one in receiver.log} == {1}  # nobody lost an attempt to it
    assert {key: set(range(1, EACH + 1)) for key in innocent} == receiver.taken


async def test_s11_an_event_that_kills_its_worker_is_skipped_where_the_endpoint_says_so(site, receiver):
    accepted = await settle_in(site, receiver, on_dead="skip")

    await serve_until_it_lives(site)
    rest = {key: ids if key != KEY else ids[1:] for key, ids in accepted.items()}
    await receiver.has(rest)

    assert (await call(site, "GET", "dead-letters"))["items"] == []
    assert receiver.taken[KEY] == {2}
    acts = (await call(site, "GET", "audit"))["items"]
    assert "policy on_dead=skip: worker_died" in [act["note"] for act in acts]
