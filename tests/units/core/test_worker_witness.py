"""What does a worker remember of what it sent and published, so that what a database lost is found?"""

from __future__ import annotations

from tests.units.core.kit import T0, Bench, event, grown, row

from hooklane.core.worker.witness import LOOSE_MS, Witness
from hooklane.model.clock import Instant
from hooklane.model.lane import Grown
from hooklane.model.redelivery import REDELIVERIES


def test_a_place_that_was_published_and_sent_again_and_again_is_asked_for_once() -> None:
    (send,) = Bench(row(1, tail=1)).fetch().sends
    witness = Witness()
    witness.published([grown(1, 1)])
    witness.sent([send, send])

    assert [(one.key, one.seq, one.event_id) for one in witness.places(T0)] == [("k1", 1, "evt_k1_1")]


def test_the_last_places_are_remembered_and_no_more_than_fit() -> None:
    witness = Witness(places_max=2)

    witness.published([grown(1, seq) for seq in (1, 2, 3)])

    assert [one.seq for one in witness.places(T0)] == [2, 3]


def test_what_is_sent_again_on_request_is_no_place_of_its_own() -> None:
    bench = Bench(row(REDELIVERIES - 1, tail=1))
    (send,) = bench.fetch().sends
    witness = Witness()
    witness.sent([send])

    assert not witness


def test_what_has_no_place_in_a_lane_is_asked_for_while_it_is_young() -> None:
    loose = Grown(-5, 0, "ep", None, 1, event(1, None))
    witness = Witness()
    witness.published([loose, grown(1, 1)])

    assert [one.key for one in witness.places(Instant(T0 + LOOSE_MS - 1))] == [None, "k1"]
    assert [one.key for one in witness.places(Instant(T0 + LOOSE_MS))] == ["k1"]
