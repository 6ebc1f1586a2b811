"""An attempt in JSON: the same shape in the API, in the live stream and on the command line."""

from __future__ import annotations

from typing import Any

from hooklane.model.attempt import Dead, Retry, Settlement, outcome_word
from hooklane.model.clock import rfc3339
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, NoAnswer
from hooklane.model.ids import attempt_id
from hooklane.model.redelivery import Redelivery
from hooklane.server.shapes import AttemptLine
from hooklane.server.views import filled
from hooklane.store.reads import AttemptRow

WORKER_DIED = "worker_died"
"""The failure of an attempt whose worker died before it saw an answer."""
SENT_SHOWN = 4_096
"""Bytes of the body that are shown with each attempt: all attempts have the same."""
_NOT_DETAIL = ("next_at", "receiver_outcome", "rev")
"""What the log keeps beside an attempt and the shape says elsewhere, or nowhere: `rev` is for the store alone."""


def settled_attempt(settlement: Settlement) -> dict[str, Any]:
    """An attempt that has just been recorded."""
    send, result, outcome = settlement.send, settlement.result, settlement.outcome
    lane_id, seq, key = send.lane_id, send.seq, send.key
    if isinstance(send.event, Redelivery):  # it is logged beside the first attempts of its event
        lane_id, seq, key = send.event.lane_id, send.event.seq or 1, send.event.lane_key
    failure = str(result.failure) if isinstance(result, NoAnswer) else None
    if result is None:
        failure = outcome.reason if isinstance(outcome, Dead) else WORKER_DIED
    return {
        "id": attempt_id(lane_id, seq, send.attempt, send.at),
        "event": send.event.id,
        "endpoint": send.endpoint.id,
        "key": key,
        "seq": None if lane_id < 0 else seq,
        "attempt": send.attempt,
        "attempts_max": send.endpoint.attempts_max,
        "started_at": rfc3339(send.at),
        "took_ms": None if result is None else round(result.timings.total_ms, 1),
        "outcome": outcome_word(outcome),
        "status": result.status if isinstance(result, Answer) else None,
        "failure": failure,
        "said": result.outcome if isinstance(result, Answer) else None,
        "next_at": rfc3339(outcome.at) if isinstance(outcome, Retry) else None,
        "type": send.event.type,
    }


def logged_attempt(
    row: AttemptRow, event: Event, key: str | None, attempts_max: int | None, sent: bytes
) -> dict[str, Any]:
    """An attempt of the log, with the body that was sent and `detail`: what was answered, as far as it is kept."""
    return {
        **attempt_line(row, event.type, key, attempts_max),
        "detail": {
            **{name: value for name, value in row.detail.items() if name not in _NOT_DETAIL},
            "request_body": sent[:SENT_SHOWN].decode("utf-8", "replace"),
            "request_bytes": len(sent),
        },
    }


def attempt_line(row: AttemptRow, type_: str, key: str | None, attempts_max: int | None) -> dict[str, Any]:
    """An attempt of the log in the shape that the stream has."""
    next_at = row.detail.get("next_at")
    return filled(
        AttemptLine,
        row,
        key=key,
        attempts_max=attempts_max,
        took_ms=None if row.failure == WORKER_DIED else round(row.took_ms, 1),
        said=row.detail.get("receiver_outcome"),
        next_at=next_at if isinstance(next_at, int) else None,
        type=type_,
    )
