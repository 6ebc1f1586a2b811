"""What an inbox in this process has received and handled, by source: a sink for `Inbox(…, emit=…)`."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from hooklane.model.message import Status
from hooklane.server.tally import Spread
from hooklane.telemetry.events import BreakerTurned, Handled, InboxEvent, Received, Refused

SOURCES_MAX = 1_000
TIMES_MAX = 10_000
UNKNOWN = "unknown_source"


@dataclass(slots=True)
class SourceTally:
    """One source since the process began."""

    verdicts: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    """Requests that did not get as far as a message, by reason."""
    handled: Counter[Status] = field(default_factory=Counter)
    handler: Spread = field(default_factory=Spread)
    breakers: dict[str, str] = field(default_factory=dict)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES_MAX))
    """When the last messages came."""

    def lately(self) -> int:
        """How many came within a minute."""
        since = time.monotonic() - 60
        return sum(at >= since for at in self.times)


class InboxTally:
    """Counts by source. Handlers run in threads, so a lock keeps the counts whole."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceTally] = {}
        self.rules: dict[str, tuple[int, int | None]] = {}
        """Retention, and how long its sender retries, in ms, of the sources of this process's inbox."""
        self._lock = threading.Lock()

    def __call__(self, event: InboxEvent) -> None:
        with self._lock:
            match event:
                case Received():
                    received = self._of(event.source)
                    received.verdicts[str(event.verdict)] += 1
                    received.times.append(time.monotonic())
                case Refused(reason=reason) if reason != UNKNOWN:  # its name is whatever a stranger wrote
                    self._of(event.source).rejected[reason] += 1
                case Handled():
                    source = self._of(event.source)
                    source.handled[event.status] += 1
                    source.handler.add(event.took_ms / 1000)
                case BreakerTurned():
                    self._of(event.source).breakers[event.handler] = event.state
                case _:
                    pass  # a log line tells it better than a number

    def _of(self, source: str) -> SourceTally:
        if source not in self.sources and len(self.sources) >= SOURCES_MAX:
            return SourceTally()
        return self.sources.setdefault(source, SourceTally())
