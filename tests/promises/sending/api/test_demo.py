"""What the demo does by itself, and what only a person makes it do."""

import random
from typing import Any

import pytest

from hooklane.server.demo import BILLING, KEYS, SHOP, Demo


class Unlucky(random.Random):
    """Chance that always hits."""

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:
        return 0.0


async def status(demo: Demo, name: str, *, attempt: int, key: str = KEYS[0]) -> int:
    """What the sender gets to see of attempt number *attempt*."""
    said: list[dict[str, Any]] = []

    async def receiver(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Any) -> None:
        said.append(message)

    headers = [(b"x-key", key.encode()), (b"x-attempt", b"%d" % attempt)]
    await demo.gate(name, receiver)({"headers": headers}, None, send)  # type: ignore[arg-type]
    return int(said[0]["status"])


@pytest.mark.parametrize("receiver", ["ok", "lost_ack"])
async def test_in_the_demo_no_event_fails_twice_unless_somebody_broke_something(receiver: str):
    demo = Demo(Unlucky())
    demo.receiver = receiver

    assert await status(demo, BILLING, attempt=1) == 503, "billing flaps, so that a person sees a retry"
    assert [await status(demo, name, attempt=2) for name in (SHOP, BILLING)] == [200, 200]


async def test_a_broken_key_fails_at_every_attempt_and_no_other_key_does():
    demo = Demo(Unlucky())
    demo.broken = (KEYS[0],)

    assert [await status(demo, SHOP, attempt=attempt) for attempt in (1, 2, 9)] == [422] * 3
    assert [await status(demo, SHOP, attempt=1, key=key) for key in KEYS[1:]] == [200] * (len(KEYS) - 1)
