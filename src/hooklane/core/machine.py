"""The lane machine as a table: what each move makes of a lane's state, and what may not happen."""

from __future__ import annotations

from enum import StrEnum

from hooklane.model.lane import LaneState


class Move(StrEnum):
    GROW = "grow"  # an event was published into the lane
    ACK = "ack"  # the head was delivered and more is waiting
    ACK_LAST = "ack_last"  # the head was delivered and nothing is waiting
    FAIL = "fail"  # an attempt at the head failed, another is due later
    DIE = "die"  # the head will not be tried again; the lane stops
    REPLAY = "replay"  # a person has the dead head sent again
    SKIP = "skip"  # the dead head is given up and more is waiting
    SKIP_LAST = "skip_last"  # the dead head is given up and nothing is waiting


IDLE, ACTIVE, RETRYING, BLOCKED = LaneState.IDLE, LaneState.ACTIVE, LaneState.RETRYING, LaneState.BLOCKED

NEXT: dict[tuple[LaneState, Move], LaneState] = {
    (IDLE, Move.GROW): ACTIVE,
    (ACTIVE, Move.GROW): ACTIVE,
    (RETRYING, Move.GROW): RETRYING,
    (BLOCKED, Move.GROW): BLOCKED,  # a dead head stops its lane, whatever arrives behind it
    (ACTIVE, Move.ACK): ACTIVE,
    (ACTIVE, Move.ACK_LAST): IDLE,
    (ACTIVE, Move.FAIL): RETRYING,
    (ACTIVE, Move.DIE): BLOCKED,
    (ACTIVE, Move.SKIP): ACTIVE,  # on_dead=skip: dead and given up in one move
    (ACTIVE, Move.SKIP_LAST): IDLE,
    (RETRYING, Move.ACK): ACTIVE,
    (RETRYING, Move.ACK_LAST): IDLE,
    (RETRYING, Move.FAIL): RETRYING,
    (RETRYING, Move.DIE): BLOCKED,
    (RETRYING, Move.SKIP): ACTIVE,
    (RETRYING, Move.SKIP_LAST): IDLE,
    (BLOCKED, Move.REPLAY): ACTIVE,
    (BLOCKED, Move.SKIP): ACTIVE,
    (BLOCKED, Move.SKIP_LAST): IDLE,
}


def after(state: LaneState, move: Move) -> LaneState:
    """The state after *move*; a move that the table does not know is a bug, not a case."""
    return NEXT[state, move]
