"""People at work while everything fails: they replay, skip, pause, rotate, delete, plan and migrate.

They work on an endpoint of their own, whose host refuses so much that letters die all the time. An act that gets no
answer may have been done or not; the books must add up in both cases.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from typing import Any

import psycopg
from tests.faults.crash.traffic import Client, Receiver
from tests.faults.hosts.cluster import APIS, Cluster
from tests.support.pace import scaled_s

NOTE = "given up while hosts failed"
REST_S = 0.15
ACTS = ("replay", "skip", "pause", "resume", "rotate", "plan", "delete", "migrate")
WEIGHTS = (6, 6, 2, 4, 2, 3, 2, 1)
MIGRATIONS_MAX = 2
"""Each is a process that must be started."""
SKIPPED = """
    SELECT t.key, generate_series(s.seq, s.upto), s.note
    FROM hooklane.skipped s JOIN hooklane.lane_tail t USING (lane_id)
    WHERE t.endpoint_id = %s AND s.kind = 'skipped'
"""


class Operators:
    """Act after act, at either API server, until told to stop; then they put their endpoint in order."""

    def __init__(
        self, cluster: Cluster, endpoint: str, receiver: Receiver, passing: Receiver, chance: random.Random
    ) -> None:
        """*endpoint* is theirs, at *receiver*; endpoints that come and go are at *passing*."""
        self._cluster = cluster
        self._endpoint = endpoint
        self._receiver = receiver
        self._passing = passing
        self._chance = chance
        self._stopping = False
        self._numbers = itertools.count(1)
        self.done: Counter[str] = Counter()
        """Acts that were answered with success."""
        self.unanswered = 0

    async def run(self) -> None:
        while not self._stopping:
            (name,) = self._chance.choices(ACTS, WEIGHTS)
            act = getattr(self, f"_{name}")
            if await act():
                self.done[name] += 1
            await asyncio.sleep(REST_S)

    def stop(self) -> None:
        self._stopping = True

    async def put_in_order(self) -> None:
        """Nothing is refused any more; each letter that is left is replayed, and the endpoint is resumed."""
        self._receiver.react = lambda _key, _seq: 200
        async with asyncio.timeout(scaled_s(180)):
            while True:
                await self._resume()
                for letter in await self._letters():
                    await self._ask("POST", f"dead-letters/{letter['id']}/replay")
                _, ledger = await self._ask("GET", "ledger")
                lines = [line for line in (ledger or {"items": []})["items"] if line["endpoint"] == self._endpoint]
                if lines and lines[0]["accepted"] == lines[0]["counts"]["delivered"] + lines[0]["counts"]["skipped"]:
                    return
                await asyncio.sleep(0.1)

    def skipped(self) -> dict[str, set[int]]:
        """What they have given up, by key: with the note that stands in the books."""
        found: dict[str, set[int]] = defaultdict(set)
        with psycopg.connect(self._cluster.pair.primary.address.url()) as connection:
            for key, seq, note in connection.execute(SKIPPED, (self._endpoint,)).fetchall():
                assert note == NOTE, f"{key} {seq} was skipped: {note}"
                found[key].add(seq)
        return found

    # --- acts ---

    async def _replay(self) -> bool:
        letters = await self._letters()
        if not letters:
            return False
        return await self._does("POST", f"dead-letters/{self._chance.choice(letters)['id']}/replay")

    async def _skip(self) -> bool:
        letters = await self._letters()
        if not letters:
            return False
        return await self._does("POST", f"dead-letters/{self._chance.choice(letters)['id']}/skip", {"note": NOTE})

    async def _pause(self) -> bool:
        return await self._does("POST", f"endpoints/{self._endpoint}/pause")

    async def _resume(self) -> bool:
        return await self._does("POST", f"endpoints/{self._endpoint}/resume")

    async def _rotate(self) -> bool:
        return await self._does("POST", f"endpoints/{self._endpoint}/rotate")

    async def _plan(self) -> bool:
        """All letters of the moment at once."""
        op = self._chance.choice(("replay", "skip"))
        status, plan = await self._ask(
            "POST", "plans", {"op": op, "filter": {"endpoint": self._endpoint, "state": "dead"}}
        )
        return status == 201 and await self._does("POST", f"plans/{plan['id']}/run", {"note": NOTE})

    async def _delete(self) -> bool:
        """An endpoint is made, gets a few events, and is deleted while they are under way."""
        kind = f"passing.n{next(self._numbers)}"
        rules = {"url": self._passing.url, "types": [kind]}
        status, made = await self._ask("POST", "endpoints", rules)
        if status != 201:
            return False
        for key in "abc":
            await self._ask("POST", "events", {"type": kind, "key": key, "data": 1})
        return await self._does("DELETE", f"endpoints/{made['id']}")

    async def _migrate(self) -> bool:
        """An operator runs the migrations of the release that is installed already."""
        if self.done["migrate"] >= MIGRATIONS_MAX:
            return False
        return await self._cluster.command("migrate", "up")

    # --- how ---

    async def _letters(self) -> list[dict[str, Any]]:
        _, page = await self._ask("GET", f"dead-letters?endpoint={self._endpoint}")
        return page["items"] if page and "items" in page else []

    async def _does(self, method: str, path: str, body: object = None) -> bool:
        status, _ = await self._ask(method, path, body)
        return 200 <= status < 300

    async def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request to either server; 0 when there is no answer. It is not repeated."""
        client = Client(self._cluster.place(self._chance.choice(APIS)), answered_within_s=4.0)
        try:
            return await client.call(method, f"/api/v1/{path}", body)
        except OSError:
            self.unanswered += 1
            return 0, None
        finally:
            client.close()
