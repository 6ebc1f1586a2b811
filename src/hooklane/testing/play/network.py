"""The network of a played scenario: it carries copies between the real sender and the consumer, and tells of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from hooklane.model.attempt import Send
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.model.message import Request
from hooklane.sender.signed_request import SignedRequests
from hooklane.testing.invariants import Invariants
from hooklane.testing.play.consumer import WORK_MS, Consumer
from hooklane.testing.play.samples import Copy
from hooklane.testing.play.weather import Fate, Weather
from hooklane.testing.sim.network import RESET, TIMED_OUT, Network
from hooklane.testing.sim.world import T0, World

Tell = Callable[..., None]
"""A step: its kind, and the fields of `Step`."""


@dataclass(slots=True)
class _Flight:
    """One attempt between its sending and its settling."""

    worker: str
    send: Send
    done: Callable[[Send, Result], None]
    digest: int
    is_over: bool = False


class PlayNetwork(Network):
    """Carries attempts by the *weather*, which asks no one's turn."""

    def __init__(
        self,
        world: World,
        checker: Invariants,
        weather: Weather,
        consumer: Consumer,
        tell: Tell,
        is_up: Callable[[str], bool],
    ) -> None:
        """*is_up*: whether the worker of this name is there to hear what comes back."""
        super().__init__(world, checker)
        self._is_up = is_up
        self.flying = 0
        """Copies and answers under way."""
        self._weather = weather
        self._consumer = consumer
        self._tell = tell
        self._signing = SignedRequests()
        self._copies = 0

    def send(self, worker: str, send: Send, done: Callable[[Send, Result], None]) -> None:
        world = self.world
        digest = crc32(self.body(send, send.seq))
        self.checker.sent(worker, send.epoch, send.lane_id, send.seq, send.attempt, send.at, send.event.id, digest)
        fate = self._weather.fate(send, world.now)
        flight = _Flight(worker, send, done, digest)
        copy = self._copy(send)
        self._step("sent", copy, until=world.now + fate.there_ms)
        self.flying += 1
        world.after_without_chance(send.endpoint.timeout_ms, self._time_out, flight, copy)
        if fate.request_lost:
            world.after_without_chance(fate.there_ms / 2, self._lose, copy)
        else:
            world.after_without_chance(fate.there_ms, self._arrive_at, flight, copy, fate, True)
        if fate.copy_after_ms is not None:
            twin = self._copy(send)
            arrives = fate.there_ms + fate.copy_after_ms
            self.flying += 1
            self._step("copied", twin, until=world.now + arrives)
            world.after_without_chance(arrives, self._arrive_at, flight, twin, fate, False)

    def _copy(self, send: Send) -> Copy:
        self._copies += 1
        now, key = Instant(T0 + int(self.world.now)), str(send.key)
        _, lines, body = self._signing.write(send, now)
        pairs = [line.partition(": ") for line in lines.decode("ascii").splitlines()]
        headers = {name: value for name, _, value in pairs}
        request = Request.of("POST", send.endpoint.url, headers, body)
        poison = self._weather.is_poison(key, send.seq)
        return Copy(self._copies, send.event.id, key, send.seq, send.attempt, now, poison, request)

    def _lose(self, copy: Copy) -> None:
        self.flying -= 1
        self._step("request_lost", copy)

    def _arrive_at(self, flight: _Flight, copy: Copy, fate: Fate, is_heard: bool) -> None:
        """A copy is there. The answer to the network's own copy is not heard, and no crash is planned for it."""
        send, crash = flight.send, fate.crash if is_heard else None
        self.checker.arrived(send.lane_id, send.seq, send.event.id, flight.digest)
        self._step("arrived", copy)
        if crash is not None:
            self._step("crashed", copy)
        if fate.works or not is_heard:
            self._consumer.take(copy, crash)
        if crash is not None:
            self.flying -= 1
            self.checker.unanswered(send.lane_id, send.seq)
            if is_heard:
                self.world.after_without_chance(WORK_MS + fate.back_ms, self._hear, flight, copy, RESET)
                self.flying += 1
            return
        self.world.after_without_chance(WORK_MS, self._reply, flight, copy, fate, is_heard)

    def _reply(self, flight: _Flight, copy: Copy, fate: Fate, is_heard: bool) -> None:
        send, world = flight.send, self.world
        status, retry_after = self._consumer.answer(copy) if fate.works or not is_heard else (503, None)
        landed = 200 <= status < 300
        if fate.status is not None and is_heard:
            status, retry_after = fate.status, None
        self.checker.answered(send.lane_id, send.seq, send.epoch, landed=landed)
        if not is_heard or (landed and not 200 <= status < 300):
            self.checker.unanswered(send.lane_id, send.seq)
        lost = fate.ack_lost and is_heard
        until = world.now + fate.back_ms * (0.5 if lost else 1.0)
        self._step("answered", copy, status=status, until=until if is_heard else None)
        if not is_heard:
            self.flying -= 1
            return
        if lost:
            self.checker.unanswered(send.lane_id, send.seq)
            world.after_without_chance(until - world.now, self._lose_ack, copy)
            return
        answer = Answer(status, Timings(world.now), retry_after=retry_after)
        world.after_without_chance(fate.back_ms, self._hear, flight, copy, answer)

    def _lose_ack(self, copy: Copy) -> None:
        self.flying -= 1
        self._step("ack_lost", copy)

    def _hear(self, flight: _Flight, copy: Copy, result: Result) -> None:
        self.flying -= 1
        if flight.is_over:
            return
        flight.is_over = True
        if not self._is_up(flight.worker):
            self._step("ack_lost", copy)
            return
        self._step("heard", copy, status=result.status if isinstance(result, Answer) else None)
        flight.done(flight.send, result)

    def _time_out(self, flight: _Flight, copy: Copy) -> None:
        if not flight.is_over and self._is_up(flight.worker):
            flight.is_over = True
            self.checker.unanswered(flight.send.lane_id, flight.send.seq)
            self._step("timed_out", copy)
            flight.done(flight.send, TIMED_OUT)

    def _step(self, kind: str, copy: Copy, **more: Any) -> None:
        self._tell(kind, key=copy.key, seq=copy.seq, try_=copy.attempt, copy=copy.number, **more)
