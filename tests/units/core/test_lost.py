"""What becomes of a lane of which the database has lost the end: places are filled, what is new moves up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.lost import mend
from hooklane.model.lost import is_lost_id


def ids(**places: str) -> dict[int, list[str]]:
    return {int(seq[1:]): [id] for seq, id in places.items()}


def test_what_is_where_it_was_is_left_alone() -> None:
    assert mend(ids(_3="c", _4="d"), ids(_3="c", _4="d", _5="e"), head=3, tail=5) is None


def test_what_was_pruned_is_not_lost() -> None:
    assert mend(ids(_1="a"), {}, head=5, tail=4) is None


def test_a_lane_that_ends_too_early_is_filled_up_to_the_last_seq_that_was_sent() -> None:
    found = mend(ids(_7="g", _9="i"), ids(_7="g"), head=6, tail=7)

    assert found is not None
    assert (found.lost, found.moves, found.tail) == ({8: [], 9: ["i"]}, (), 9)


def test_what_took_a_seq_that_was_sent_moves_up_in_its_order() -> None:
    found = mend(ids(_2="b", _3="c"), ids(_2="x", _3="y", _4="z"), head=2, tail=4)

    assert found is not None
    assert (found.lost, found.moves, found.tail) == ({2: ["b"], 3: ["c"]}, ((2, 4), (3, 5), (4, 6)), 6)


def test_what_the_head_has_passed_is_told_and_stays() -> None:
    found = mend(ids(_2="b", _3="c"), ids(_2="x", _3="y"), head=3, tail=3)

    assert found is not None
    assert (found.reused, found.lost, found.moves) == ({2: ["b"]}, {3: ["c"]}, ((3, 4),))


def test_a_place_that_was_filled_before_is_never_given_to_another() -> None:
    """Two processes remember different parts of what was sent, and come one after the other."""
    found = mend(ids(_5="e"), {5: ["x"], 6: ["lost:k:6", "f"], 7: ["y"]}, head=5, tail=7)

    assert found is not None
    assert (found.lost, found.moves, found.tail) == ({5: ["e"]}, ((5, 7), (7, 8)), 8)


def test_an_event_that_another_process_did_not_know_is_named_beside() -> None:
    found = mend(ids(_5="e"), {5: ["lost:k:5", "other"]}, head=5, tail=5)

    assert found is not None
    assert (found.unnamed, found.lost) == ({5: ["e"]}, {})
    assert mend(ids(_5="e"), {5: ["lost:k:5", "other", "e"]}, head=5, tail=5) is None


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, list[str]], dict[int, list[str]], int, int]:
    """A lane whose first *kept* events are old, the others new; of the old ones some were sent."""
    kept, sent_upto, new = draw(st.integers(0, 6)), draw(st.integers(0, 12)), draw(st.integers(0, 6))
    sent = {seq: [f"old{seq}"] for seq in range(1, sent_upto + 1) if draw(st.booleans())}
    stored = {seq: [f"old{seq}"] for seq in range(1, kept + 1)}
    stored |= {seq: [f"new{seq}"] for seq in range(kept + 1, kept + new + 1)}
    return sent, stored, draw(st.integers(1, kept + new + 1)), kept + new


@given(histories())
def test_no_event_gets_a_seq_that_was_sent_with_another_and_the_order_stays(history) -> None:
    sent, stored, head, tail = history
    found = mend(sent, {seq: one for seq, one in stored.items() if sent and seq >= min(sent)}, head, tail)
    after = {seq: one[0] for seq, one in stored.items()}
    if found is not None:
        moves = dict(found.moves)
        after = {moves.get(seq, seq): one for seq, one in after.items()}
        assert after.keys().isdisjoint(found.lost)
        after |= {seq: f"lost:{seq}" for seq in found.lost}
        assert sorted(after) == list(range(1, found.tail + 1)), "no gap"
    for seq, (id,) in sent.items():
        assert after.get(seq) == id or is_lost_id(after.get(seq, "")) or (seq < head and found and seq in found.reused)
    order = [one for _, one in sorted(after.items()) if not is_lost_id(one)]
    assert order == [one[0] for _, one in sorted(stored.items())]
    again = mend(sent, {seq: [one, *sent.get(seq, [])] for seq, one in after.items()}, head, max(after, default=0))
    assert again is None, "told once"
