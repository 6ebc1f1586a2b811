"""Logs as JSON (`HOOKLANE_LOG_FORMAT=json`): one object a line, one wide line for each attempt and each handling.

What may be in a line is decided by type: text, numbers and words of ours. A secret (any other kind of text), bytes and
objects are named by their type, and of an exception only its type and place are told: its text may quote a payload.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from hooklane.model.attempt import Dead, Delivered, Retry, Settlement, outcome_word
from hooklane.model.clock import rfc3339
from hooklane.model.exchange import Answer, NoAnswer
from hooklane.telemetry.deliveries import Happening, Recorded

_PLAIN = (str, int, float, bool, type(None))


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; what a record carries in `hooklane` becomes fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "hooklane", None)
        if isinstance(fields, dict):
            line.update({str(name): plain(value) for name, value in fields.items()})
        else:
            line["message"] = _message(record)
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = type(record.exc_info[1]).__name__
            frames = traceback.extract_tb(record.exc_info[2])
            if frames:
                line["raised_at"] = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
        return json.dumps(line, ensure_ascii=False)


def plain(value: Any) -> Any:
    """*value* as far as its type may be told."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, BaseException):
        return type(value).__name__
    return f"<{type(value).__name__}>"


def _message(record: logging.LogRecord) -> str:
    args = record.args
    if isinstance(args, dict):
        return str(record.msg) % {name: plain(value) for name, value in args.items()}
    if args:
        return str(record.msg) % tuple(plain(value) for value in args)
    return record.msg if type(record.msg) is str else str(plain(record.msg))


class AttemptLog:
    """A listener of the relay: one wide line for each attempt, to the logger `hooklane.attempts`."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("hooklane.attempts")

    def __call__(self, happening: Happening) -> None:
        if not isinstance(happening, Recorded):
            return
        for settlement in happening.settlements:
            level = level_of(settlement)
            if self._logger.isEnabledFor(level):
                self._logger.log(level, "attempt", extra={"hooklane": attempt_fields(settlement)})


def level_of(settlement: Settlement) -> int:
    match settlement.outcome:
        case Delivered():
            return logging.INFO
        case Dead():
            return logging.ERROR
        case _:
            return logging.WARNING


def attempt_fields(settlement: Settlement) -> dict[str, Any]:
    """All that is told of an attempt: ids, numbers and words of ours; the URL stays out, since it may hold a token."""
    send, outcome, result = settlement.send, settlement.outcome, settlement.result
    fields: dict[str, Any] = {
        "event": "attempt",
        "tenant": send.event.tenant,
        "event_id": send.event.id,
        "type": send.event.type,
        "endpoint": send.endpoint.id,
        "key": send.key,
        "seq": None if send.is_loose else send.seq,
        "attempt": send.attempt,
        "attempts_max": send.endpoint.attempts_max,
        "outcome": outcome_word(outcome),
        "age_ms": max(0, settlement.at - send.event.created_at),
    }
    if isinstance(result, Answer):
        fields["status"] = result.status
        fields["said"] = result.outcome
    elif isinstance(result, NoAnswer):
        fields["failure"] = str(result.failure)
    if result is not None:
        fields["took_ms"] = round(result.timings.total_ms, 1)
    if not isinstance(outcome, Delivered):
        fields["reason"] = outcome.reason
    if isinstance(outcome, Retry):
        fields["next_at"] = rfc3339(outcome.at)
    if send.event.trace is not None:
        fields["trace_id"] = send.event.trace[3:35]
    return {name: value for name, value in fields.items() if value is not None}
