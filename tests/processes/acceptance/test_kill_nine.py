"""`kill -9` of the server at random moments: nothing that was accepted is lost, and each key keeps its order."""

import http.client
import json
import random
import threading
import urllib.error
from collections import defaultdict
from collections.abc import Callable

from tests.processes.acceptance.conftest import Client
from tests.support.processes import Child, until
from tests.support.receiver import Answer, Request, Sink

KILLS = 5
KEYS = [f"key:{number}" for number in range(6)]
SEED = 20260301


def test_nothing_accepted_is_lost_and_order_holds_through_kill_nine(
    serve: Callable[..., tuple[Child, Client]], sink: Sink
):
    chance = random.Random(SEED)
    # A receiver with bad moments of its own, so that deaths find attempts in flight, failed and waiting.
    answers: dict[int, Answer] = {}

    def react(request: Request) -> Answer:
        answer = Answer(status=chance.choice([200, 200, 200, 200, 503]), after_s=chance.choice([0, 0, 0.01, 0.05]))
        answers[id(request)] = answer
        return answer

    sink.react = react
    child, client = serve()
    client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "backoff_ms": 20, "backoff_cap_ms": 100})
    publisher = Publisher(client)
    threads = [threading.Thread(target=publisher.run, args=(key,), name=key) for key in KEYS]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            so_far = len(publisher.accepted)
            more = chance.randrange(5, 60)
            until(lambda least=so_far + more: len(publisher.accepted) >= least, what="more events to be accepted")
            child.kill()
            child, client = serve()
    finally:
        publisher.stopping.set()
        for thread in threads:
            thread.join()

    accepted = publisher.accepted
    until(lambda: arrived(sink) >= set(accepted), what="every accepted event to arrive", within_s=30)

    def settled() -> bool:
        ledger = client.get("/api/v1/overview")["ledger"]
        return bool(ledger["accepted"] == ledger["delivered"] >= len(accepted))

    until(settled, what="every delivery to be acked")

    assert len(accepted) > 5 * KILLS
    check_order(sink.requests, accepted, answers)
    assert client.get("/api/v1/overview")["ledger"]["delivered"] == len(accepted)
    assert child.stop() == 0


class Publisher:
    """Publishes to each key one event after the other, and repeats what it has no answer for, under the same id."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.accepted: dict[str, tuple[str, int]] = {}
        self.stopping = threading.Event()

    def run(self, key: str) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            event_id = f"{key.replace(':', '-')}-{number}"
            answer = self._until_known(event_id, key, number)
            self.accepted[event_id] = (key, answer["lanes"][0]["seq"])

    def _until_known(self, event_id: str, key: str, number: int) -> dict:  # type: ignore[type-arg]
        def publish() -> dict | None:  # type: ignore[type-arg]
            try:
                return self._client.publish("tick", key, {"number": number}, id=event_id)
            except (urllib.error.URLError, OSError, http.client.HTTPException):
                return None  # unknown: repeating it can never count twice

        return until(publish, what=f"an answer to {event_id}", within_s=60)


def arrived(sink: Sink) -> set[str]:
    return {request.headers["webhook-id"] for request in sink.requests}


def check_order(requests: list[Request], accepted: dict[str, tuple[str, int]], answers: dict[int, Answer]) -> None:
    """Per key: seqs without a gap, first seen in order, each only after its predecessor got a 200; copies are equal."""
    by_key: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        by_key[request.headers["x-key"]].append(request)
    for key, mine in by_key.items():
        first_seen: dict[int, Request] = {}
        for request in mine:
            seq = int(request.headers["x-seq"])
            if seq not in first_seen:
                assert seq == len(first_seen) + 1, f"{key}: {seq} arrived before {len(first_seen) + 1}"
                assert seq == 1 or any(acks(one, seq - 1, request, answers) for one in mine), (
                    f"{key}: {seq} came too early"
                )
                first_seen[seq] = request
            first = first_seen[seq]
            assert (request.headers["webhook-id"], request.body) == (first.headers["webhook-id"], first.body)
            assert json.loads(request.body)["seq"] == seq
        numbers = [json.loads(first_seen[seq].body)["data"]["number"] for seq in sorted(first_seen)]
        assert numbers == list(range(1, len(numbers) + 1)), f"{key} was not published in order"
    for event_id, (key, seq) in accepted.items():
        assert any(
            request.headers["webhook-id"] == event_id and int(request.headers["x-seq"]) == seq
            for request in by_key[key]
        )


def acks(one: Request, seq: int, before: Request, answers: dict[int, Answer]) -> bool:
    """Whether *one* was a copy of *seq* whose 200 could have left when *before* arrived."""
    answer = answers[id(one)]
    given_at = one.arrived_at + answer.after_s
    return int(one.headers["x-seq"]) == seq and answer.status == 200 and given_at <= before.arrived_at
