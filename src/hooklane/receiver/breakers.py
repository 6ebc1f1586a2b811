"""The breakers of an inbox's handlers: which calls may begin, and what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from hooklane.batching.locks import open_in_forks
from hooklane.core.admission.breaker import Breaker, BreakerState
from hooklane.model.clock import Instant, boot_now
from hooklane.receiver.source import Handler

_CLOSED = BreakerState.CLOSED


class Breakers:
    """The breaker of each handler of this process; a lock, because workers and requests may be many threads.

    A call that may begin is granted in a *turn* of its breaker, and is given back in it by `record` or `forgo`.
    """

    def __init__(self, clock: Callable[[], Instant] = boot_now) -> None:
        self._clock = clock
        self._lock = open_in_forks(threading.Lock())
        self._of: dict[tuple[str, str], Breaker] = {}

    def room(self, handler: Handler, wanted: int) -> tuple[int, int]:
        """How many calls of *handler* may begin, and in which turn."""
        with self._lock:
            breaker = self._breaker(handler)
            return (wanted, 0) if breaker is None else (breaker.room(self._clock(), wanted), breaker.turn)

    def enter(self, handlers: Sequence[Handler]) -> tuple[dict[str, int], int]:
        """Let a call of each of *handlers* begin, or none: the turns by handler, and else for how many ms to wait."""
        turns: dict[str, int] = {}
        for handler in handlers:
            breaker = self._of.get((handler.source, handler.name))
            if breaker is not None and breaker.state is not _CLOSED:
                return self._enter(handlers)
            turns[handler.name] = 0 if breaker is None else breaker.turn
        return turns, 0  # as nearly always: neither lock nor clock

    def _enter(self, handlers: Sequence[Handler]) -> tuple[dict[str, int], int]:
        turns: dict[str, int] = {}
        with self._lock:
            now = self._clock()
            for handler in handlers:
                breaker = self._of.get((handler.source, handler.name))
                if breaker is not None and not breaker.room(now):
                    for entered in handlers[: len(turns)]:
                        self._forgo(entered, 1, turns[entered.name])
                    return {}, breaker.wait_ms(now)
                turns[handler.name] = 0 if breaker is None else breaker.turn
        return turns, 0

    def forgo(self, handler: Handler, calls: int, turn: int) -> None:
        """Calls that were granted and not made, or that say nothing."""
        with self._lock:
            self._forgo(handler, calls, turn)

    def _forgo(self, handler: Handler, calls: int, turn: int) -> None:
        breaker = self._of.get((handler.source, handler.name))
        if breaker is not None and calls > 0:
            breaker.forgo(calls, turn)

    def record(self, handler: Handler, ok: bool, turn: int) -> BreakerState | None:
        """A call ended; the new state if it changed."""
        now = self._clock()
        with self._lock:
            breaker = self._breaker(handler)
            if breaker is None:
                return None
            before = breaker.state
            after = breaker.record(ok, now, turn)
        return None if after is before else after

    def states(self) -> dict[tuple[str, str], BreakerState]:
        """The state of each handler's breaker."""
        with self._lock:
            return {name: breaker.state for name, breaker in self._of.items()}

    def _breaker(self, handler: Handler) -> Breaker | None:
        name = (handler.source, handler.name)
        breaker = self._of.get(name)
        if breaker is None and handler.breaker is not None:
            breaker = self._of[name] = Breaker(handler.breaker)
        return breaker
