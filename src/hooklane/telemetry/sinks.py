"""Sinks for telemetry: one out of several, and none that can break what it is told about."""

from __future__ import annotations

import logging
from typing import Any

from hooklane.telemetry.events import Emit, InboxEvent, nowhere
from hooklane.telemetry.inbox_log import InboxLog


class Both:
    """One sink out of several: `emit=both(InboxLog(), InboxMetrics())`."""

    def __init__(self, *sinks: Emit) -> None:
        self._sinks = [guarded(sink) for sink in sinks]

    def __call__(self, event: InboxEvent) -> None:
        for sink in self._sinks:
            sink(event)

    def bind(self, inbox: Any) -> None:
        for sink in self._sinks:
            bind(sink, inbox)


both = Both


class Guarded:
    """A sink whose errors are logged: an event that was committed must not be answered 500 because of a counter."""

    def __init__(self, sink: Emit) -> None:
        self.sink = sink

    def __call__(self, event: InboxEvent) -> None:
        try:
            self.sink(event)
        except Exception:
            logging.getLogger("hooklane").exception("a sink of telemetry failed on %s", type(event).__name__)

    def bind(self, inbox: Any) -> None:
        bind(self.sink, inbox)


def guarded(sink: Emit) -> Emit:
    """*sink*, unable to do harm."""
    return sink if sink is nowhere or isinstance(sink, (Guarded, Both)) else Guarded(sink)


def logs(sink: Emit) -> bool:
    """Whether *sink* writes log lines of its own."""
    if isinstance(sink, Guarded):
        return logs(sink.sink)
    return any(logs(each) for each in sink._sinks) if isinstance(sink, Both) else isinstance(sink, InboxLog)


def bind(sink: Emit, inbox: Any) -> None:
    """Tell *sink* whose events it gets, where it wants to know: some figures are asked for and not told."""
    wants = getattr(sink, "bind", None)
    if wants is not None:
        wants(inbox)
