"""The receiver's happenings as structured log lines: one wide line each, with names and numbers and no payload."""

from __future__ import annotations

import dataclasses
import logging

from hooklane.model.message import Status, Verdict
from hooklane.telemetry.events import (
    BreakerTurned,
    CommitHookFailed,
    Conflicted,
    FenceRejected,
    Handled,
    InboxEvent,
    LeaseTakenOver,
    Received,
    Refused,
    WorkerTroubled,
)

_LOUD = (Conflicted, FenceRejected, LeaseTakenOver, CommitHookFailed, WorkerTroubled, BreakerTurned)


class InboxLog:
    """A sink: `Inbox(…, emit=InboxLog())`. The fields of an event are the record's `extra`, under `hooklane`."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("hooklane.inbox")

    def __call__(self, event: InboxEvent) -> None:
        level = level_of(event)
        if not self._logger.isEnabledFor(level):
            return
        fields = {
            field.name: getattr(event, field.name)
            for field in dataclasses.fields(event)
            if getattr(event, field.name) is not None
        }
        words = " ".join(f"{name}={value}" for name, value in fields.items())
        self._logger.log(level, "%s %s", type(event).__name__, words, extra={"hooklane": fields})


def level_of(event: InboxEvent) -> int:
    """Routine is DEBUG, what a person may want to know INFO, what somebody should look at WARNING."""
    match event:
        case Received(verdict=Verdict.CONFLICT | Verdict.REJECTED | Verdict.TOO_OLD) | Refused():
            return logging.WARNING
        case Received():
            return logging.DEBUG
        case Handled(status=Status.DEAD):
            return logging.ERROR
        case Handled(status=Status.FAILED):
            return logging.WARNING
        case Handled():
            return logging.INFO
        case _ if isinstance(event, _LOUD):
            return logging.WARNING
        case _:
            return logging.INFO
