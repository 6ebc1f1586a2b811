"""What lies between two sides, and what is mended first."""

from hooklane.core.reconcile import Act, InLine, KeyFacts, Lost, Mend, Received, between, mend
from hooklane.model.lane import LaneState
from hooklane.model.message import Status


def row(seq: int, status: Status) -> Received:
    return Received(row=str(seq), event_id=f"evt_{seq}", seq=seq, status=status)


def facts(*rows: Received, lost: tuple[int, ...] = (), line: InLine | None = None) -> KeyFacts:
    missing = [Lost(event_id=f"evt_{seq}", seq=seq) for seq in lost]
    return KeyFacts(key="k", acked=9, applied=1, lost=missing, received=rows, line=line)


def line(state: LaneState, dead_letter: str | None = None) -> InLine:
    return InLine(head=10, tail=12, state=state, dead_letter=dead_letter)


def test_what_is_in_between_stands_in_the_order_of_its_key():
    found = between(facts(row(4, Status.HELD), row(3, Status.DEAD), lost=(2,), line=line(LaneState.RETRYING)))

    assert [(one.seq, one.where) for one in found] == [(2, "lost"), (3, "receiver"), (4, "receiver"), (10, "sender")]
    assert sum(one.events for one in found) == 6


def test_the_first_that_needs_a_person_is_mended_first():
    assert mend(facts(row(3, Status.DEAD), lost=(2, 5))) == Mend(Act.SEND_AGAIN, ("evt_2", "evt_5"))
    assert mend(facts(row(2, Status.DEAD), row(4, Status.FAILED), row(5, Status.HELD), lost=(3,))) == (
        Mend(Act.HANDLE_AGAIN, ("2", "4"))
    )
    assert mend(facts(row(2, Status.HELD), line=line(LaneState.BLOCKED, "dlv_1"))) == Mend(
        Act.REPLAY_LETTER, ("dlv_1",)
    )
    assert mend(facts(line=line(LaneState.PAUSED))) == Mend(Act.RESUME)


def test_what_moves_by_itself_needs_nothing():
    moving = facts(row(2, Status.PENDING), row(3, Status.IN_PROGRESS), row(4, Status.HELD), line=line(LaneState.ACTIVE))

    assert len(between(moving)) == 4
    assert mend(moving) is None
    assert between(facts(line=InLine(head=10, tail=9, state=LaneState.IDLE))) == []
