"""How endpoints do: turns of breakers that workers share, each decided by the worker that writes it first."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.testing.conformance_outbox.kit import T0, Outbox, OutboxKit, Owner, add_tenants, endpoint

OPENED = Health("ep_a", 1, BreakerState.OPEN, Instant(T0 + 5_000), 1, "w1")


class Minding(OutboxKit):
    async def test_a_turn_is_told_to_those_who_poll_and_to_those_who_come_later(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        owner = await Owner.of(store)
        before = await owner.load()

        found = await store.note_health([OPENED])
        news = await store.poll(owner.worker, list(owner.epochs), before.mark)
        quiet = await store.poll(owner.worker, list(owner.epochs), news.mark)

        assert [OPENED] == list(found) == list(news.health)
        assert [] == list(before.health) == list(quiet.health)
        assert list((await owner.load()).health) == [OPENED]
        assert dict(await store.health()) == {"ep_a": OPENED}

    async def test_whoever_writes_a_turn_first_decides_it(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        await store.note_health([OPENED])
        claims = [Health("ep_a", 2, BreakerState.PROBING, Instant(T0 + 9_000 + n), 1, f"w{n}") for n in range(6)]

        answers = await asyncio.gather(*(store.note_health([claim]) for claim in claims))

        (stored,) = (await store.health()).values()
        assert stored in claims
        assert [[stored]] * 6 == [list(found) for found in answers]

    async def test_the_same_turn_again_changes_nothing_and_is_found(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        await store.note_health([OPENED])

        again = await store.note_health([OPENED])

        assert list(again) == [OPENED]

    async def test_a_turn_follows_the_one_before_it(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        await store.note_health([OPENED])
        late = replace(OPENED, turn=3, state=BreakerState.CLOSED)
        early = replace(OPENED, turn=1, state=BreakerState.CLOSED)

        assert list(await store.note_health([late])) == [OPENED]
        assert list(await store.note_health([early])) == [OPENED]
        following = replace(OPENED, turn=2, state=BreakerState.RAMPING, by="w2")
        assert [following] == list(await store.note_health([following]))

    async def test_several_endpoints_turn_in_one_go_and_an_unknown_one_is_left_out(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_a"), expect=None)
        await add_tenants(store, "other")
        await store.save_endpoint(endpoint("ep_b", tenant="other"), expect=None)
        turns = [replace(OPENED, endpoint_id=one) for one in ("ep_b", "ep_nowhere", "ep_a")]

        found = await store.note_health(turns)

        assert {"ep_a", "ep_b"} == {one.endpoint_id for one in found}
        assert list(await store.health("default")) == ["ep_a"]
        assert list(await store.health("other")) == ["ep_b"]
