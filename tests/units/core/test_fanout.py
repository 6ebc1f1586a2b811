"""Who gets an event, and where it stands there."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.units.core.kit import endpoint, event

from hooklane.core.fanout import LISTS_MAX, TYPES_MAX, Fanout, is_pattern, matches, partition_of, places
from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint, EndpointState, Order
from hooklane.model.lane import GLOBAL_KEY, PARTITIONS, Place

types = st.text("abc.", min_size=1, max_size=12)
patterns = st.text("abc.*", min_size=1, max_size=12)


@given(st.lists(patterns, max_size=4), types)
def test_a_filter_passes_what_one_of_its_patterns_describes(filter_: list[str], type_: str) -> None:
    assert matches(filter_, type_) == (not filter_ or any(fnmatchcase(type_, pattern) for pattern in filter_))


def test_a_pattern_is_of_the_characters_of_a_type_and_stars() -> None:
    assert is_pattern("order.*")
    assert not is_pattern("")
    assert not is_pattern("order[a]")
    assert not is_pattern("order.*\n")


@given(st.sampled_from(EndpointState), st.sampled_from(Order), st.none() | st.text(min_size=1, max_size=20))
def test_an_event_stands_in_at_most_one_lane_of_an_endpoint(
    state: EndpointState, order: Order, key: str | None
) -> None:
    found = places(event(1, key), None, [endpoint(state=state, order=order)])

    if state in (EndpointState.DRAINING, EndpointState.CANCELLING):
        assert found == []
    else:
        (place,) = found
        assert place.key == {Order.KEY: key, Order.NONE: None, Order.GLOBAL: GLOBAL_KEY}[order]
        assert 0 <= place.pid < PARTITIONS


def test_events_of_one_key_share_a_lane_and_loose_ones_are_spread() -> None:
    one = endpoint()

    keyed = {place.pid for n in range(50) for place in places(event(n, "k"), None, [one])}
    loose = {place.pid for n in range(50) for place in places(event(n, None), None, [one])}

    assert len(keyed) == 1
    assert len(loose) > 20


def test_explicit_endpoints_bypass_filters_and_an_unknown_one_is_refused() -> None:
    known = [endpoint("ep_a", types=("user.*",)), endpoint("ep_b"), endpoint("ep_c", state=EndpointState.DRAINING)]

    assert [place.endpoint_id for place in places(event(1), ["ep_a", "ep_a"], known)] == ["ep_a"]
    for asked in (["ep_x"], ["ep_a", "ep_x"], ["ep_c"]):
        with pytest.raises(InvalidEvent, match=asked[-1]) as refused:
            places(event(1), asked, known)
        assert refused.value.code == "unknown_endpoint"


def test_partitions_are_the_same_in_every_version() -> None:
    """Pinned: a store keeps them, so another hash would leave lanes in partitions where nobody looks for them."""
    pids = [partition_of("ep_01", key) for key in ("a", "b", "order:7", "schlüssel", "*")]

    assert pids == [47, 149, 66, 199, 55]
    assert places(event(1, "a"), None, [endpoint("ep_01")]) == [Place("ep_01", "a", 47)]


filters = st.lists(patterns, max_size=2).map(tuple)
crowds = st.lists(st.tuples(filters, st.sampled_from(EndpointState)), max_size=6).map(
    lambda some: [endpoint(f"ep_{n}", types=types_, state=state) for n, (types_, state) in enumerate(some)]
)


@given(st.lists(crowds, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 2), types), max_size=12))
def test_a_fan_out_that_remembers_says_what_one_that_does_not_would(
    crowd: list[list[Endpoint]], asked: list[tuple[int, str]]
) -> None:
    fanout = Fanout()

    for n, (which, type_) in enumerate(asked):
        endpoints, one = crowd[which % len(crowd)], replace(event(n), type=type_)
        assert fanout(one, None, endpoints) == places(one, None, endpoints)


@given(crowds, types)
def test_who_gets_an_event_is_whose_filter_it_passes_in_their_order(crowd: list[Endpoint], type_: str) -> None:
    takers = [one.id for one in crowd if one.state not in (EndpointState.DRAINING, EndpointState.CANCELLING)]
    passing = [one.id for one in crowd if matches(one.types, type_)]

    found = [place.endpoint_id for place in places(replace(event(1), type=type_), None, crowd)]

    assert found == [one for one in takers if one in passing]


class Looked(str):
    """A pattern that counts how often it was compared with a type."""

    times = 0

    def split(self, *args: object) -> list[str]:  # type: ignore[override]
        Looked.times += 1
        return str(self).split(*args)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["mine.{}", "mine.{}.*", "mine.{}*.made"])
def test_a_new_type_is_not_compared_with_the_filter_of_every_endpoint(pattern: str) -> None:
    crowd = [endpoint(f"ep_{n}", types=(Looked(pattern.format(n)),)) for n in range(1_000)]
    fanout, Looked.times = Fanout(), 0

    for n in range(100, 200):
        found = fanout(replace(event(n), type=pattern.format(n).replace("*", "x")), None, crowd)
        assert [place.endpoint_id for place in found if place.endpoint_id == f"ep_{n}"]

    assert Looked.times <= 1_000, "comparing each with all would be 100,000"


@given(crowds, st.lists(st.integers(0, 6), max_size=4))
def test_endpoints_asked_for_by_id_come_in_their_own_order_and_once(crowd: list[Endpoint], asked: list[int]) -> None:
    fanout, ids = Fanout(), [f"ep_{n}" for n in asked]
    takers = [one.id for one in crowd if one.state not in (EndpointState.DRAINING, EndpointState.CANCELLING)]

    for _ in range(2):
        if set(ids) <= set(takers):
            assert [place.endpoint_id for place in fanout(event(1), ids, crowd)] == [
                one for one in takers if one in ids
            ]
        else:
            with pytest.raises(InvalidEvent):
                fanout(event(1), ids, crowd)


def test_a_fan_out_forgets_rather_than_grow_with_types_and_lists() -> None:
    fanout, crowd = Fanout(), [endpoint("ep_a", types=("a.*",)), endpoint("ep_b")]

    for n in range(TYPES_MAX + 2):
        assert len(fanout(replace(event(n), type=f"a.{n}"), None, crowd)) == 2
    for n in range(LISTS_MAX + 2):
        assert len(fanout(event(n), ["ep_b"], list(crowd))) == 1

    assert len(fanout._known) <= LISTS_MAX
    assert all(len(takers._of_type) <= TYPES_MAX for takers in fanout._known.values())
