"""What a worker decides beside its deliveries: whether a mark holds, and where a sweep looks next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.worker.news import still_holds
from hooklane.core.worker.sweeping import Rounds, unnoticed
from hooklane.model.clock import Instant
from hooklane.model.session import Session
from hooklane.testing.conformance_outbox.kit import endpoint

DIRECT = Session("cluster 00000001", "4711 100", None, 500)
POOLED = replace(DIRECT, began_at=100)


@pytest.mark.parametrize(
    ("mark", "here", "mark_lives", "holds"),
    [
        pytest.param(DIRECT, replace(DIRECT, read_at=900), False, True, id="the session that read it"),
        pytest.param(DIRECT, replace(DIRECT, id="4712 800"), True, True, id="another one beside it"),
        pytest.param(DIRECT, replace(DIRECT, id="4712 800"), False, False, id="a later one"),
        pytest.param(DIRECT, replace(DIRECT, id="4711 800"), False, False, id="a later one with the same number"),
        pytest.param(DIRECT, replace(DIRECT, server="cluster 00000002"), True, False, id="after a promotion"),
        pytest.param(DIRECT, replace(DIRECT, server="another 00000001"), True, False, id="another cluster"),
        pytest.param(POOLED, replace(POOLED, id="4712 90", began_at=90), False, True, id="an older one of a pooler"),
        pytest.param(POOLED, replace(POOLED, id="4712 800", began_at=800), False, False, id="a younger one"),
        pytest.param(
            POOLED, Session("cluster 00000002", "1 90", 90, 900), False, False, id="of a server whose clock lags"
        ),
    ],
)
def test_a_mark_holds_while_no_number_can_have_been_given_out_twice(mark, here, mark_lives, holds) -> None:
    assert holds == still_holds(mark, here, mark_lives=mark_lives)


@given(st.sets(st.integers(0, 255), min_size=1), st.lists(st.floats(0, 5_000), min_size=1, max_size=300))
def test_a_sweep_comes_to_each_partition_in_a_hundredth_of_the_time(owned, took) -> None:
    rounds, now, busy, seen = Rounds(), 0, 0.0, []
    for ms in took:
        while (pid := rounds.next(Instant(now), owned)) is None:
            now += 1 + rounds._due - now
        seen.append(pid)
        now += int(ms)
        busy += int(ms)
        rounds.looked(Instant(now), int(ms))

    assert busy <= 0.01 * max(rounds._due, 1) + 1
    assert set(seen[: len(owned)]) == owned if len(seen) >= len(owned) else set(seen) <= owned


def test_a_sweep_goes_on_when_partitions_come_and_go() -> None:
    rounds = Rounds(rest_ms_min=0)

    assert rounds.next(Instant(0), []) is None
    assert [rounds.next(Instant(0), owned) for owned in ([3, 9], [3, 9], [1, 5], [7], [7])] == [3, 9, 1, 7, 7]


def test_an_endpoint_that_changed_unnoticed_is_found_and_one_that_we_heard_of_since_is_left() -> None:
    old, newer, same = endpoint("ep_a"), endpoint("ep_b"), endpoint("ep_c")
    before = {one.id: one for one in (old, newer, same)}
    known = {**before, "ep_b": replace(newer, name="newer still")}
    found = [replace(old, name="changed"), replace(newer, name="read"), endpoint("ep_c"), endpoint("ep_d")]

    assert unnoticed(found, before, known) == [found[0], found[3]]
