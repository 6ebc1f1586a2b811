"""The receiver's happenings as structured log lines: one wide line each, with names and numbers and no payload."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from typing import Any

from hooklane.model.message import Status, Verdict
from hooklane.telemetry.events import (
    BreakerTurned,
    CommitHookFailed,
    Conflicted,
    FenceRejected,
    GapStopped,
    Handled,
    InboxEvent,
    LeaseTakenOver,
    Received,
    Refused,
    WorkerTroubled,
)

_LOUD = (Conflicted, FenceRejected, LeaseTakenOver, CommitHookFailed, WorkerTroubled, BreakerTurned, GapStopped)
_PLAIN = re.compile(r"[\w.:@/+*-]+", re.ASCII)
_NAME = re.compile(r"(?<!^)(?=[A-Z])")
_ERROR = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)


class InboxLog:
    """A sink: `Inbox(…, emit=InboxLog())`, to the logger `hooklane.inbox` unless another is given.

    The fields of an event are in the line, as `name=value` or with *as_json* as one JSON object, and in the record's
    `hooklane` for formatters. What a sender or an exception wrote cannot begin a line of its own; of an exception only
    the type is told, for its text may quote the payload: that, and the traceback, are kept with the event.
    """

    def __init__(self, logger: logging.Logger | None = None, *, as_json: bool = False) -> None:
        self._logger = logger or logging.getLogger("hooklane.inbox")
        self._as_json = as_json

    def __call__(self, event: InboxEvent) -> None:
        level = level_of(event)
        if not self._logger.isEnabledFor(level):
            return
        what = _NAME.sub("_", type(event).__name__).lower()
        fields = fields_of(event)
        if self._as_json:
            line = json.dumps({"event": what, **fields})
        else:
            line = " ".join([what, *(f"{name}={_word(value)}" for name, value in fields.items())])
        self._logger.log(level, "%s", line, extra={"hooklane": {"event": what, **fields}})


def fields_of(event: InboxEvent) -> dict[str, Any]:
    """What is told of *event*: what it has, numbers as numbers and words as words."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if value is None:
            continue
        if field.name == "error":
            kind = _ERROR.match(value)
            fields["error"] = kind[0] if kind else "unknown"
        elif isinstance(value, float):
            fields[field.name] = round(value, 3)
        else:
            fields[field.name] = value if isinstance(value, int) else str(value)
    return fields


def _word(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def level_of(event: InboxEvent) -> int:
    """Routine is DEBUG, what a person may want to know INFO, what a person should look at WARNING."""
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
