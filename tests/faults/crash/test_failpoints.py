"""Death and stalls at the named points of the sender: what is sent again, and what is not.

One key, one event at a time: so that it is known which event was under way, and every copy can be accounted for.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.faults.crash.traffic import Client
from tests.support.pace import scaled_ms, scaled_s

POINTS = {"before_send": 0, "after_2xx": 1, "before_commit": 1, "after_commit": 0}
"""How many copies a death at each point makes: one where the endpoint had answered and the ack was not durable."""
BEFORE = 3


class Story:
    """A server with an endpoint that has delivered a few events, and dies or stalls at the next."""

    def __init__(self, site, receiver) -> None:
        self._site = site
        self._receiver = receiver
        self.ids: list[str] = []

    @property
    def accepted(self) -> dict[str, list[str]]:
        return {"k": self.ids}

    async def publish(self, many: int) -> None:
        """Publish, each when the one before has arrived."""
        client = Client(self._site.port)
        for _ in range(many):
            number = len(self.ids) + 1
            event_id, seq = await client.publish("k", {"n": number}, f"name-{number}")
            assert seq == number
            self.ids.append(event_id)
            await self._receiver.until(lambda upto=number: upto in self._receiver.taken["k"])
        client.close()

    async def publish_one(self) -> None:
        """Publish without waiting for the delivery."""
        client = Client(self._site.port)
        number = len(self.ids) + 1
        event_id, _ = await client.publish("k", {"n": number}, f"name-{number}")
        self.ids.append(event_id)
        client.close()


@pytest.fixture
async def story(site, receiver, make_endpoint) -> Story:
    """The endpoint exists; nothing was published yet, and nobody serves."""
    server = await site.serve()
    await server.ready()
    await make_endpoint()
    await server.stop()
    return Story(site, receiver)


def in_order(receiver) -> list[int]:
    """The seqs in the order in which they were taken for the first time."""
    return list(dict.fromkeys(one.seq for one in receiver.log if one.status == 200))


@pytest.mark.parametrize(("point", "copies"), POINTS.items())
async def test_f16_f18_f19_a_kill_at_a_failpoint_loses_nothing_and_copies_only_what_was_unknown(
    site, receiver, story, point, copies
):
    server = await site.serve(failpoints=f"{point}=kill@{BEFORE + 1}")
    await story.publish(BEFORE)
    await story.publish_one()
    await server.ended()
    await receiver.next_life()
    taken_before = len(receiver.log)
    await site.serve()
    await story.publish_one()
    await receiver.has(story.accepted)

    assert taken_before == BEFORE + (point != "before_send")
    assert in_order(receiver) == [1, 2, 3, 4, 5]
    assert [(one.life, one.seq) for one in receiver.copies()] == [(1, BEFORE + 1)] * copies
    assert len({(one.seq, one.event_id, one.digest) for one in receiver.log}) == BEFORE + 2  # copies are the same bytes


async def test_f17_a_kill_before_the_answer_sends_again(site, receiver, story):
    server = await site.serve()
    await story.publish(BEFORE)
    receiver.held = asyncio.Event()
    await story.publish_one()
    await receiver.until(lambda: len(receiver.log) == BEFORE + 1)
    await server.kill()
    receiver.held.set()
    await receiver.next_life()
    await site.serve()
    await receiver.until(lambda: len(receiver.log) == BEFORE + 2)
    await story.publish_one()
    await receiver.has(story.accepted)

    assert in_order(receiver) == [1, 2, 3, 4, 5]
    assert [(one.life, one.seq) for one in receiver.copies()] == [(1, BEFORE + 1)]


@pytest.mark.parametrize("point", POINTS)
async def test_a_stall_at_a_failpoint_delays_and_copies_nothing(site, receiver, story, point):
    await site.serve(failpoints=f"{point}=stall:400@{BEFORE + 1}")
    await story.publish(BEFORE)
    await story.publish_one()
    await story.publish_one()
    await receiver.has(story.accepted)

    assert in_order(receiver) == [1, 2, 3, 4, 5]
    assert receiver.copies() == []


@pytest.mark.parametrize("point", POINTS)
async def test_a_stall_beyond_the_lease_loses_and_reorders_nothing(site, receiver, story, point):
    """The worker finds its lease expired, drops everything and starts anew; nobody else could deliver meanwhile."""
    lease_ms = scaled_ms(600)  # a machine that is busy renews late
    await site.serve(failpoints=f"{point}=stall:{lease_ms * 3 // 2}@{BEFORE + 1}", lease_ms=lease_ms)
    await story.publish(BEFORE)
    await story.publish_one()
    await story.publish_one()
    await receiver.has(story.accepted)
    await story.publish(BEFORE)

    assert in_order(receiver) == list(range(1, 2 * BEFORE + 3))
    # What it learns after its lease it may not record: one copy, unless the ack was durable before the stall.
    assert [one.seq for one in receiver.copies()] in ([], [BEFORE + 1] if point != "after_commit" else [])


async def test_f20_f54_while_a_server_is_frozen_no_second_one_delivers_from_its_file(site, receiver, story):
    first = await site.serve()
    await story.publish(BEFORE)
    receiver.held = asyncio.Event()
    await story.publish_one()
    await receiver.until(lambda: len(receiver.log) == BEFORE + 1)
    first.freeze()
    second = await site.serve(port=0)
    await second.ended()
    first.thaw()
    receiver.held.set()
    await story.publish(1)

    assert "another process already delivers from" in second.log.read_text()
    assert in_order(receiver) == [1, 2, 3, 4, 5]
    assert receiver.copies() == []


async def test_s11_a_head_that_kills_its_worker_each_time_ends_as_a_dead_letter(site, receiver, make_endpoint):
    """Poison: each attempt ends the process before its outcome is durable; those that it made alone are counted."""
    server = await site.serve()
    await server.ready()
    await make_endpoint(attempts_max=4)
    await server.stop()
    story = Story(site, receiver)
    for _ in range(8):
        server = await site.serve(failpoints="after_2xx=kill@1")
        await server.ready()
        if not story.ids:
            await story.publish_one()
        letters: list[str] = []
        async with asyncio.timeout(scaled_s(30)):
            while not letters:
                try:
                    _, page = await Client(site.port).call("GET", "/api/v1/dead-letters")
                    letters = page["items"]
                except OSError:
                    break
                await asyncio.sleep(0.01)
        if letters:
            break
        await server.ended()

    assert [letter["seq"] for letter in letters] == [1]
    assert letters[0]["attempts"] == 4
    # The first was not suspected, so not announced; the second was, but might have been any other's fault.
    assert [one.attempt for one in receiver.log] == [1, 1, 1, 2, 3, 4]
