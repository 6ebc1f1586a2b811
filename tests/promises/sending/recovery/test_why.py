"""Why does it wait? One sentence that says what to do."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hooklane.core.why import why_delivery, why_lane
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState, LaneState

NOW = Instant(1_750_000_000_000)


def lane(state: LaneState, **facts: object) -> str:
    told = {
        "key": "order:1017",
        "head": 7,
        "waiting": 3,
        "attempts": 35,
        "attempts_max": 35,
        "next_at": None,
        "reason": "422",
        "dead_letter_id": "dlv_1",
        "now": NOW,
    }
    return why_lane(state=state, **{**told, **facts})  # type: ignore[arg-type]


def delivery(state: DeliveryState, **facts: object) -> str:
    told = {
        "seq": 8,
        "lane": None,
        "head": None,
        "attempts": 0,
        "reason": None,
        "next_at": None,
        "dead_letter_id": None,
        "now": NOW,
    }
    return why_delivery(state=state, **{**told, **facts})  # type: ignore[arg-type]


def test_an_event_behind_a_dead_head_names_the_head_its_cause_and_the_two_ways_out():
    blocked = lane(LaneState.BLOCKED, said="unknown sku")

    assert delivery(DeliveryState.QUEUED, lane=blocked, head=7) == (
        "#8 waits for #7; #7 of order:1017 died after 35 tries (last: 422 'unknown sku'); nothing moves on order:1017"
        " until you replay or skip #7 (dlv_1); 3 events behind it wait as well."
    )


def test_a_retrying_head_says_when_it_is_tried_again():
    told = lane(LaneState.RETRYING, attempts=2, waiting=1, reason="503", next_at=Instant(NOW + 90_000))

    assert told == (
        "#7 of order:1017 failed 2 times of at most 35 (last: 503); the next try is in 1 min 30 s;"
        " 1 event behind it waits as well."
    )


def test_a_held_lane_says_that_nothing_is_lost():
    assert "is paused; nothing is lost" in lane(LaneState.PAUSED)
    assert "410 Gone" in lane(LaneState.PAUSED, endpoint_state=EndpointState.DISABLED)
    assert "is paused; nothing is lost" in delivery(DeliveryState.QUEUED, seq=None, endpoint_state=EndpointState.PAUSED)


def test_what_is_settled_says_that_it_does_not_wait():
    assert delivery(DeliveryState.DELIVERED, attempts=2) == "#8 does not wait: it was delivered after 2 tries."
    assert "it was skipped (OPS-412)" in delivery(DeliveryState.SKIPPED, reason="OPS-412")
    assert "cancelled with its endpoint" in delivery(DeliveryState.CANCELLED)
    assert lane(LaneState.IDLE) == "Nothing waits on order:1017: everything up to #6 is settled."


@settings(deadline=None)
@given(st.sampled_from(list(LaneState)), st.text(max_size=300), st.integers(0, 40), st.integers(0, 10**7))
def test_whatever_the_endpoint_answered_the_sentence_stays_one_line(state, said, attempts, wait_ms):
    told = lane(state, said=said, attempts=attempts, next_at=Instant(NOW + wait_ms))

    assert len(told.splitlines()) == 1
    assert told.endswith(".")
    assert len(told) < 400


@settings(deadline=None)
@given(st.sampled_from(list(DeliveryState)), st.one_of(st.none(), st.integers(1, 9)), st.text(max_size=300))
def test_every_delivery_has_a_sentence_whatever_its_state(state, seq, reason):
    told = delivery(state, seq=seq, reason=reason, dead_letter_id="dlv_1")

    assert told.startswith("It " if seq is None else f"#{seq} ")
    assert told.endswith(".")
