"""What happens between a worker and a receiver, and what receivers do: all the ways in which an attempt can end."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from zlib import crc32

from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.wire import body_of
from hooklane.model.attempt import Send
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.world import World

_TIMINGS = Timings(1.0)
_ANSWERS = {status: Answer(status, _TIMINGS) for status in (200, 204, 400, 404, 410, 422, 429, 500, 502, 503)}
_TOO_MANY = Answer(429, _TIMINGS, retry_after="1")
_BACK_SOON = Answer(503, _TIMINGS, retry_after="1")
TIMED_OUT = NoAnswer(Failure.TIMEOUT, _TIMINGS, sent=True)
RESET = NoAnswer(Failure.RESET, _TIMINGS, sent=True)
NO_ROOM = NoAnswer(Failure.ABORTED, _TIMINGS)


class Kind(Enum):
    """How a receiver behaves."""

    HEALTHY = auto()
    FLAKY = auto()
    SLOW = auto()
    ILL_FOR_LONG = auto()
    CHOKES = auto()  # on one event in twelve, always
    STRICT = auto()  # admits by the order of the receiver itself, says 409, and now and then forgets where it was
    LEAVES = auto()  # says 410 now and then


class Receiver:
    """One endpoint's other side."""

    def __init__(self, world: World, kind: Kind) -> None:
        self.world = world
        self.kind = kind
        self._ill_until = 0.0
        self._last: dict[int, int] = {}

    def answer(self, lane: int, seq: int, prev_seq: int, event_id: str) -> tuple[Answer, float]:
        """What it says to a copy, and after how many milliseconds."""
        world, roll = self.world, self.world.roll()
        quick = 1.0 + 4.0 * world.roll()
        if not world.faults.sick:
            return _ANSWERS[200], quick
        digest = crc32(event_id.encode())
        if digest % 1_000 < world.faults.poison * 1_000:
            return _ANSWERS[422], quick
        match self.kind:
            case Kind.FLAKY if roll < 0.2:
                return world.chance.choice((_ANSWERS[500], _ANSWERS[502], _TOO_MANY, _BACK_SOON)), quick
            case Kind.SLOW if roll < 0.15:
                return _ANSWERS[200], 1_000.0 * world.roll()
            case Kind.ILL_FOR_LONG:
                if world.now < self._ill_until:
                    return _ANSWERS[503], quick
                if roll < 0.002:
                    self._ill_until = world.now + 6_000.0
            case Kind.CHOKES if digest % 12 == 0:
                return _ANSWERS[422], quick
            case Kind.LEAVES if roll < 0.004:
                return _ANSWERS[410], quick
            case Kind.STRICT if lane > 0:
                return self._strict(lane, seq, prev_seq, roll), quick
            case _:
                pass
        return _ANSWERS[200 if roll < 0.5 else 204], quick

    def _strict(self, lane: int, seq: int, prev_seq: int, roll: float) -> Answer:
        last = self._last.get(lane, 0)
        if whose_turn(seq=seq, prev_seq=prev_seq, applied=last) is not Turn.READY:
            return Answer(409, _TIMINGS, expected_seq=str(last + 1))
        self._last[lane] = seq
        if roll < 0.003:
            self._last[lane] = max(0, seq - 3)  # restored from a backup
        return _ANSWERS[200]

    def resync(self, lane: int, seq: int) -> None:
        """A person told the receiver to go on from here."""
        self._last[lane] = seq - 1


class Network:
    """Carries attempts, loses some, and tells the checker what arrives."""

    def __init__(self, world: World, checker: Invariants) -> None:
        self.world = world
        self.checker = checker
        self.receivers: dict[str, Receiver] = {}

    def send(self, worker: str, send: Send, done: Callable[[Send, Result], None]) -> None:
        """Make an attempt; *done* is called when it ends for the sender."""
        world, faults, endpoint = self.world, self.world.faults, send.endpoint
        seq = None if send.is_loose else send.seq
        body = self.body(send, seq)
        digest = crc32(body)
        self.checker.sent(worker, send.epoch, send.lane_id, send.seq, send.attempt, send.at, send.event.id, digest)
        world.trace(7, send.lane_id, send.seq, send.attempt)
        world.counts["sent"] += 1
        if world.roll() < faults.no_room:
            world.counts["no room"] += 1
            world.after(endpoint.timeout_ms * world.roll(), done, send, NO_ROOM)
            return
        roll = world.roll()
        deadline = world.now + endpoint.timeout_ms
        if roll < faults.request_lost:
            world.counts["request lost"] += 1
            self._give_up(send, deadline, done)
            return
        if roll < faults.request_lost + faults.request_late:
            world.counts["request late"] += 1
            self._give_up(send, deadline, done)
            late = endpoint.timeout_ms * (1.0 + 4.0 * world.roll())
            world.after(late, self._arrive, send, digest, deadline, None)
            return
        if world.roll() < faults.request_doubled:
            world.counts["request doubled"] += 1
            world.after(1.0 + 4_000.0 * world.roll(), self._arrive, send, digest, deadline, None)
        world.after(0.5 + 2.0 * world.roll(), self._arrive, send, digest, deadline, done)

    def kills(self, send: Send) -> bool:
        """Whether this delivery is the end of the worker that makes it."""
        killers = self.world.faults.killers
        return killers > 0 and crc32(f"{send.event.id}/{send.endpoint.id}".encode()) % 100_000 < killers * 100_000

    def body(self, send: Send, seq: int | None) -> bytes:
        endpoint = send.endpoint
        return body_of(
            send.event, endpoint.payload, order=endpoint.order, key=send.key, seq=seq, prev_seq=send.prev_seq
        )

    def _arrive(self, send: Send, digest: int, deadline: float, done: Callable[[Send, Result], None] | None) -> None:
        world = self.world
        self.checker.arrived(send.lane_id, send.seq, send.event.id, digest)
        receiver = self.receivers[send.endpoint.id]
        answer, took = receiver.answer(send.lane_id, send.seq, send.prev_seq, send.event.id)
        have_it = answer.status == 409 and answer.expected_seq == str(send.seq + 1)
        landed = answer.status in (200, 204) or have_it
        world.trace(8, send.lane_id, send.seq, answer.status)
        self.checker.answered(send.lane_id, send.seq, send.epoch, landed=landed)
        if done is None:
            self.checker.unanswered(send.lane_id, send.seq)  # a copy whose answer no worker waits for
            return
        back = took + 0.5 + 2.0 * world.roll()
        if world.now + back >= deadline:
            self._give_up(send, deadline, done)
        elif world.roll() < world.faults.reply_lost:
            world.counts["reply lost"] += 1
            self.checker.unanswered(send.lane_id, send.seq)
            world.after(back, done, send, RESET)
        else:
            world.after(back, done, send, answer)

    def _give_up(self, send: Send, deadline: float, done: Callable[[Send, Result], None]) -> None:
        self.checker.unanswered(send.lane_id, send.seq)
        self.world.after(max(0.0, deadline - self.world.now), done, send, TIMED_OUT)
