"""The ledger, counted from the rows."""

from __future__ import annotations

from hooklane.model.attempt import Dead
from hooklane.testing.conformance_outbox.kit import (
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
)
from hooklane.testing.conformance_recovery.kit import Store, lane_with


class Bookkeeping(OutboxKit):
    async def test_the_ledger_is_counted_from_the_rows_and_balances(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint("ep_a"), expect=None)
        await store.save_endpoint(endpoint("ep_b", types=("user.*",)), expect=None)
        events = [event(f"{key}{n}", key) for key in ("done", "sick", "dead", "passed") for n in (1, 2)]
        report = await published(store, *events, event("u1", None, type="user.new"))
        lanes = {one.key: one.lane_id for one in report.grown if one.key is not None}
        await owner.deliver(lanes["done"], 2)
        await owner.fail(lanes["sick"])
        await owner.kill(lanes["dead"])
        await owner.settle(lanes["passed"], Dead("422", skip=True))

        for _ in range(2):
            lines = {one.endpoint_id: one for one in await store.check_ledger()}
            assert {"ep_a", "ep_b"} == set(lines)
            assert all(one.is_balanced for one in lines.values()), lines
            counts = {str(state): many for state, many in lines["ep_a"].counts.items() if many}
            assert counts == {"delivered": 2, "queued": 4, "retrying": 1, "dead": 1, "skipped": 1}
            assert (lines["ep_a"].accepted, lines["ep_b"].accepted) == (9, 1)
            await store.tidy()

    async def test_the_check_agrees_with_the_ledger_that_people_see(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 3)
        await owner.deliver(lane_id)

        (line,) = await store.check_ledger()

        seen = dict(await store.ledger("default", "ep_a"))
        assert line.accepted == seen.pop("accepted")
        assert dict(line.counts) == seen
