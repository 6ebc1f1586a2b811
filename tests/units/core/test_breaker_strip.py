"""The breaker in slots of time: what a person reads at a glance must not hide that it was open."""

from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.breaker_strip import states_by_slot
from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState

CLOSED, OPEN, PROBING, RAMPING = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.PROBING, BreakerState.RAMPING
SLOTS = [Instant(at) for at in (1000, 1100, 1200, 1300)]
changes = st.lists(st.tuples(st.integers(900, 1500).map(Instant), st.sampled_from(BreakerState)), max_size=12).map(
    lambda some: sorted(some, key=lambda one: one[0])
)


def test_a_breaker_that_never_turned_was_closed_all_the_time():
    assert states_by_slot(CLOSED, [], SLOTS, 100) == [CLOSED] * 4


def test_a_slot_shows_that_it_was_open_if_only_for_a_moment():
    turns = [(Instant(1110), OPEN), (Instant(1111), PROBING), (Instant(1112), CLOSED)]

    assert states_by_slot(CLOSED, turns, SLOTS, 100) == [CLOSED, OPEN, CLOSED, CLOSED]


def test_what_it_did_last_holds_in_the_slots_after_it():
    assert states_by_slot(CLOSED, [(Instant(1199), OPEN), (Instant(1200), RAMPING)], SLOTS, 100) == [
        CLOSED,
        OPEN,
        OPEN,  # it was when the slot began
        RAMPING,
    ]


def test_a_turn_of_before_says_how_it_stood_at_first():
    assert states_by_slot(None, [(Instant(700), OPEN), (Instant(950), PROBING)], SLOTS, 100) == [PROBING] * 4


def test_what_is_not_on_record_is_not_known():
    assert states_by_slot(None, [(Instant(1250), CLOSED)], SLOTS, 100) == [None, None, CLOSED, CLOSED]


@given(changes)
def test_every_turn_that_opened_it_inside_a_slot_is_seen_there(turns: list[tuple[Instant, BreakerState]]):
    states = states_by_slot(CLOSED, turns, SLOTS, 100)

    assert len(states) == len(SLOTS)
    for slot, state in zip(SLOTS, states, strict=True):
        if any(slot <= at < slot + 100 and turned is OPEN for at, turned in turns):
            assert state is OPEN
