"""The Node consumer behind the real sender and the real faults: each effect once, in the order of its key."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from tests.processes.interop.bad_network import BadNetwork
from tests.processes.interop.kit import Consumer, Sender, call, credit_line, publish_file, signed, signed_body
from tests.support.processes import Child, until
from tests.support.proxy import Clear, DuplicateRequest, FaultProxy, LoseReply, Refuse


def once_in_order(cents: list[int]) -> list[tuple[int, int, int]]:
    """What an account must hold after events of so many *cents*: nothing twice, nothing before its turn."""
    return [(seq, one, sum(cents[:seq])) for seq, one in enumerate(cents, start=1)]


# Copies, sent straight to the consumer


def test_copies_of_an_event_have_one_effect_and_are_answered_with_200(consumer: Consumer) -> None:
    answers = [consumer.post(*signed("a", 1)) for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.body["status"] for answer in answers] == ["ok", "already_processed", "already_processed"]
    assert [answer.headers["hooklane-outcome"] for answer in answers] == ["applied", "duplicate", "duplicate"]
    assert consumer.entries() == {"a": [(1, 1, 1)]}


def test_copies_at_the_same_time_have_one_effect(consumer: Consumer) -> None:
    copies = [signed("a", 1)] * 12
    with ThreadPoolExecutor(len(copies)) as crowd:
        answers = list(crowd.map(lambda copy: consumer.post(*copy), copies))

    assert [answer.status for answer in answers] == [200] * 12
    assert sorted(answer.headers["hooklane-outcome"] for answer in answers) == ["applied", *["duplicate"] * 11]
    assert consumer.entries() == {"a": [(1, 1, 1)]}


def test_an_effect_that_fails_leaves_no_trace_and_is_tried_again(consumer: Consumer) -> None:
    failed = consumer.post(*signed("a", 1, cents=None))
    behind = consumer.post(*signed("a", 2))
    again = consumer.post(*signed("a", 1))

    assert failed.status == 500
    assert (behind.status, behind.headers["webhook-expected-seq"]) == (409, "1")
    assert again.headers["hooklane-outcome"] == "applied"
    assert consumer.seqs("a") == [1]


def test_an_effect_that_hides_an_error_of_the_database_is_not_taken_for_done(consumer: Consumer) -> None:
    hiding = "async (client) => client.query('SELECT 1 / 0').catch(() => {})"
    # Without a seq nothing comes after the effect that would meet the failed transaction: only the COMMIT tells.
    told = consumer.evaluate(f"receive(pool, {{ id: 'evt_1' }}, {hiding})")

    assert told == {"error": "the transaction was rolled back"}


def test_the_largest_event_is_taken_and_what_is_larger_than_any_event_is_not(consumer: Consumer) -> None:
    largest, too_large = ("x" * size for size in (256 * 1024, 600 * 1024))

    assert consumer.post(*signed("a", 1, pad=largest)).headers["hooklane-outcome"] == "applied"
    assert consumer.post(*signed("a", 2, pad=too_large)).status == 413


def test_an_event_before_its_turn_is_told_which_seq_is_next_and_leaves_no_trace(consumer: Consumer) -> None:
    consumer.post(*signed("a", 1))

    early = consumer.post(*signed("a", 4))
    rest = [consumer.post(*signed("a", seq)).status for seq in (2, 3, 4)]

    assert (early.status, early.headers["webhook-expected-seq"]) == (409, "2")
    assert early.headers["hooklane-outcome"] == "held"
    assert rest == [200, 200, 200]
    assert consumer.seqs("a") == [1, 2, 3, 4]


def test_events_that_the_sender_skipped_are_not_waited_for(consumer: Consumer) -> None:
    consumer.post(*signed("a", 1))

    answer = consumer.post(*signed("a", 4, prev_seq=1))

    assert answer.headers["hooklane-outcome"] == "applied"
    assert consumer.seqs("a") == [1, 4]


def test_copies_in_any_order_are_applied_in_the_order_of_their_key(consumer: Consumer) -> None:
    chance = random.Random(11)
    copies = [(account, seq) for account in "ab" for seq in range(1, 6) for _ in range(2)]
    statuses = set()
    for _ in range(5):  # each round applies at least the next event of each key
        chance.shuffle(copies)
        statuses |= {consumer.post(*signed(*copy)).status for copy in copies}

    assert statuses == {200, 409}
    assert consumer.entries() == {"a": once_in_order([1] * 5), "b": once_in_order([1] * 5)}


def test_an_old_copy_is_known_by_its_seq_when_its_id_is_forgotten(consumer: Consumer) -> None:
    for seq in (1, 2, 3):
        consumer.post(*signed("a", seq))
    with psycopg.connect(consumer.db) as connection:
        connection.execute("TRUNCATE webhook_seen")

    stale = consumer.post(*signed("a", 2))

    assert (stale.status, stale.headers["hooklane-outcome"]) == (200, "stale")
    assert consumer.seqs("a") == [1, 2, 3]


def test_what_is_not_signed_is_answered_with_401_and_has_no_effect(consumer: Consumer) -> None:
    body, headers = signed("a", 1)

    refused = [
        consumer.post(body.replace(b'"cents": 1', b'"cents": 9'), headers),
        consumer.post(body, {**headers, "webhook-id": "evt_another"}),
        consumer.post(body, {}),
        consumer.post(b"", headers),
    ]

    assert [answer.status for answer in refused] == [401] * 4
    assert consumer.entries() == {}


def test_what_is_signed_and_is_no_envelope_of_its_id_is_answered_with_400(consumer: Consumer) -> None:
    raw = consumer.post(*signed_body("evt_1", '{"account": "a", "cents": 1}'))
    other = consumer.post(*signed_body("evt_1", signed("a", 1)[0].decode()))

    assert (raw.status, other.status) == (400, 400)
    assert consumer.entries() == {}


def test_while_its_database_is_away_the_consumer_says_503_and_then_goes_on(own_consumer: Consumer) -> None:
    database = psycopg.conninfo.conninfo_to_dict(own_consumer.db)
    with FaultProxy(int(str(database["port"]))) as proxy:
        own_consumer.kill()
        own_consumer.start(db=own_consumer.db.replace(f":{database['port']}/", f":{proxy.port}/"))
        own_consumer.post(*signed("a", 1))
        proxy.fault = Refuse()
        proxy.reset_all()
        # The pool may hold a connection whose end it has not noticed yet: that one fails in its own way.
        away = until(
            lambda: (answer := own_consumer.post(*signed("a", 2))).status == 503 and answer, what="an answer of 503"
        )
        proxy.fault = Clear()
        back = until(lambda: (answer := own_consumer.post(*signed("a", 2))).status == 200 and answer, what="an answer")

    assert away.headers["retry-after"] == "1"
    assert back.headers["hooklane-outcome"] == "applied"
    assert own_consumer.seqs("a") == [1, 2]


# Behind the real sender


def test_a_lost_answer_makes_a_second_delivery_and_no_second_effect(consumer: Consumer, sender: Sender) -> None:
    with FaultProxy(consumer.port, fault=LoseReply()) as proxy:
        endpoint = sender.endpoint(proxy.port)
        event = sender.credit(endpoint, "a", 5)
        sender.credit(endpoint, "a", 7)
        until(lambda: len(sender.get(f"/events/{event['id']}/attempts")["items"]) >= 3, what="some lost answers")
        assert consumer.seqs("a") == [1], "the second waits for the answer to the first"
        proxy.fault = Clear()
        sender.wait_delivered(endpoint, 2)

    assert consumer.entries() == {"a": once_in_order([5, 7])}
    attempts = sender.get(f"/events/{event['id']}/attempts")["items"]
    assert {attempt["failure"] for attempt in attempts[:-1]} == {"reset"}


def test_copies_at_the_same_time_and_copies_that_come_late_have_no_effect(consumer: Consumer, sender: Sender) -> None:
    with FaultProxy(consumer.port, fault=DuplicateRequest()) as proxy:
        endpoint = sender.endpoint(proxy.port)
        for _ in range(5):
            sender.credit(endpoint, "a")
        sender.wait_delivered(endpoint, 5)
        proxy.replay()  # all of it once more, when all of it was acknowledged

    assert consumer.entries() == {"a": once_in_order([1] * 5)}


def test_a_consumer_killed_inside_its_transaction_applies_the_event_once(
    own_consumer: Consumer, sender: Sender
) -> None:
    endpoint = sender.endpoint(own_consumer.port)
    sender.credit(endpoint, "a", 1)
    sender.wait_delivered(endpoint, 1)
    with psycopg.connect(own_consumer.db) as holder:
        holder.execute("LOCK TABLE entry IN EXCLUSIVE MODE")
        sender.credit(endpoint, "a", 2)
        until(lambda: _waiting(own_consumer.db), what="the consumer in the middle of its effect")
        own_consumer.kill()
    sender.credit(endpoint, "a", 3)
    own_consumer.start()
    sender.wait_delivered(endpoint, 3)

    assert own_consumer.entries() == {"a": once_in_order([1, 2, 3])}
    with psycopg.connect(own_consumer.db) as connection:
        assert connection.execute("SELECT cents FROM account").fetchall() == [(6,)]


def _waiting(db: str) -> int:
    with psycopg.connect(db) as connection:
        waiting = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'")
        return int(waiting.fetchall()[0][0])


def test_a_consumer_that_lost_its_state_stops_the_key_until_a_person_has_mended_it(
    consumer: Consumer, sender: Sender
) -> None:
    endpoint = sender.endpoint(consumer.port)
    for _ in range(3):
        sender.credit(endpoint, "a")
    sender.wait_delivered(endpoint, 3)
    with psycopg.connect(consumer.db) as connection:
        connection.execute("TRUNCATE webhook_seen, webhook_lane")
    sender.credit(endpoint, "a")
    sender.credit(endpoint, "a")
    lane = f"/lanes/{endpoint}/account%3Aa"
    until(lambda: sender.get(lane)["state"] == "blocked", what="a blocked lane")

    stopped = sender.get(lane)
    assert "seq_gap" in stopped["reason"]
    assert consumer.seqs("a") == [1, 2, 3]

    with psycopg.connect(consumer.db) as connection:
        connection.execute("UPDATE webhook_lane SET seq = 3")
        connection.execute("INSERT INTO webhook_lane VALUES ('account:a', 3) ON CONFLICT DO NOTHING")
    sender.post(f"/dead-letters/{stopped['dead_letter']}/replay")
    sender.wait_delivered(endpoint, 5)
    assert consumer.seqs("a") == [1, 2, 3, 4, 5]


def test_a_secret_is_rotated_to_a_key_pair_and_no_delivery_fails(own_consumer: Consumer, sender: Sender) -> None:
    endpoint = sender.endpoint(own_consumer.port)
    rotated = sender.post(f"/endpoints/{endpoint}/rotate", {"signature": "v1a"})
    first = sender.credit(endpoint, "a")
    sender.wait_delivered(endpoint, 1)
    own_consumer.kill()
    own_consumer.start(secret=rotated["public_key"])
    second = sender.credit(endpoint, "a")
    sender.wait_delivered(endpoint, 2)

    assert own_consumer.seqs("a") == [1, 2]
    for event in (first, second):
        attempts = sender.get(f"/events/{event['id']}/attempts")["items"]
        assert 401 not in {attempt["status"] for attempt in attempts}


def test_events_of_endpoints_without_order_count_once_each(consumer: Consumer, sender: Sender) -> None:
    with BadNetwork(consumer.port, percent=20, seed=3) as network:
        endpoint = sender.endpoint(network.port, order="none")
        for number in range(20):
            sender.credit(endpoint, "a", number)
        sender.wait_delivered(endpoint, 20)
        network.deliver_late()

    applied = consumer.entries()["a"]
    assert {seq for seq, _, _ in applied} == {None}
    assert sorted(cents for _, cents, _ in applied) == list(range(20))


def test_the_test_delivery_of_an_endpoint_is_taken(consumer: Consumer, sender: Sender) -> None:
    endpoint = sender.endpoint(consumer.port)

    tested = [call(sender.port, "POST", f"/api/v1/endpoints/{endpoint}/test", {}).body for _ in range(2)]

    assert [(one["ok"], one["status"], one["outcome"]) for one in tested] == [(True, 200, "applied")] * 2


# The whole way


@pytest.mark.parametrize(
    ("keys", "each", "kills"),
    [
        pytest.param(10, 20, 1, id="200 events and kills"),
        pytest.param(50, 20, 0, id="1000 events", marks=pytest.mark.soak),
        pytest.param(100, 50, 6, id="5000 events and more kills", marks=pytest.mark.soak),
    ],
)
def test_through_lost_answers_copies_and_kills_each_event_counts_once_and_in_order(
    own_consumer: Consumer, sender: Sender, tmp_path: Path, keys: int, each: int, kills: int
) -> None:
    """From the Node producer to the Node consumer, both over networks that lose, repeat and delay a fifth."""
    with (
        BadNetwork(sender.port, percent=20, seed=keys) as to_sender,
        BadNetwork(own_consumer.port, percent=20, seed=each) as to_consumer,
    ):
        endpoint = sender.endpoint(to_consumer.port)
        lines = [credit_line(endpoint, f"a{key}", number, number) for number in range(each) for key in range(keys)]
        with publish_file(tmp_path, lines, to_sender.port) as producer:
            for kill in range(1, kills + 1):
                share = len(lines) * kill // (kills + 1)
                until(
                    lambda share=share: _has_applied(own_consumer, share, producer),
                    what=f"{share} effects",
                    within_s=60,
                )
                own_consumer.kill()
                sender.kill()
                own_consumer.start()
                sender.start()
            assert producer.wait(within_s=120) == 0, producer.output()
        sender.wait_delivered(endpoint, len(lines), within_s=120)
        copies = to_consumer.deliver_late() + to_consumer.fates["twice"]

    assert own_consumer.entries() == {f"a{key}": once_in_order(list(range(each))) for key in range(keys)}
    assert to_consumer.fates["lose the answer"] > 0.1 * len(lines)
    assert copies > 0.1 * len(lines)
    assert to_sender.fates["lose the answer"] > 0.1 * len(lines)


def _has_applied(consumer: Consumer, share: int, producer: Child) -> bool:
    assert producer.returncode in (None, 0), producer.output()  # it may be done before the deliveries are
    return sum(len(entries) for entries in consumer.entries().values()) >= share
