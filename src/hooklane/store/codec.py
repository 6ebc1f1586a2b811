"""How do values look in a store? The same JSON in every back-end that keeps documents."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, get_type_hints

import msgspec

from hooklane.model.attempt import Dead, Delivered, Gone, Retry, Settlement
from hooklane.model.clock import START
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.exchange import Answer, NoAnswer, Timings
from hooklane.model.plan import Job
from hooklane.model.tenant import Tenant

log = logging.getLogger("hooklane.store")

_encoder = msgspec.json.Encoder()
_endpoints = msgspec.json.Decoder(Endpoint)
_jobs = msgspec.json.Decoder(Job)
_tenants = msgspec.json.Decoder(Tenant)


def encode_endpoint(endpoint: Endpoint) -> bytes:
    return _encoder.encode(endpoint)


def decode_endpoint(doc: bytes | str) -> Endpoint:
    """The endpoint of a row. One that holds what no version of ours wrote is held, and the others go on."""
    try:
        return _endpoints.decode(doc)
    except msgspec.ValidationError as error:
        return _held_endpoint(msgspec.json.decode(doc), error)


def _held_endpoint(kept: dict[str, Any], error: msgspec.ValidationError) -> Endpoint:
    """What can be read of an endpoint's row; what cannot is as if it had never been set, and nothing is sent to it."""
    fields: dict[str, Any] = {"id": "", "url": "", "created_at": START}
    for name, type_ in get_type_hints(Endpoint).items():
        if name in kept:
            with contextlib.suppress(msgspec.ValidationError):
                fields[name] = msgspec.convert(kept[name], type_)
    endpoint = Endpoint(**fields)
    log.error("nothing is sent to endpoint %s, all of it is held: its row cannot be read (%s)", endpoint.id, error)
    return endpoint if endpoint.state.is_deleted else replace(endpoint, state=EndpointState.DISABLED)


def encode_job(job: Job) -> bytes:
    return _encoder.encode(job)


def decode_job(doc: bytes | str) -> Job:
    return _jobs.decode(doc)


def encode_tenant(tenant: Tenant) -> bytes:
    return _encoder.encode(tenant)


def decode_tenant(doc: bytes | str) -> Tenant:
    return _tenants.decode(doc)


class AttemptFields(NamedTuple):
    """A settlement as the attempt log keeps it: slim for a success, in full for a failure."""

    outcome: str
    took_ms: float
    status: int | None
    failure: str | None
    said: str | None
    detail: bytes | None


def attempt_fields(settlement: Settlement) -> AttemptFields:
    result = settlement.result
    if isinstance(result, Answer) and isinstance(settlement.outcome, Delivered):  # by far the most
        return AttemptFields("delivered", result.timings.total_ms, result.status, None, result.outcome, None)
    outcome = _word(settlement)
    match result:
        case Answer(status=status, timings=timings, outcome=said) as answer:
            detail = _detail(settlement, timings, answer.head, answer.body)
            return AttemptFields(outcome, timings.total_ms, status, None, said, detail)
        case NoAnswer(failure=failure, timings=timings, detail=text):
            return AttemptFields(
                outcome, timings.total_ms, None, str(failure), None, _detail(settlement, timings, text=text)
            )
        case None:
            # There was no attempt, or its worker died of it: the outcome says which.
            reason = settlement.outcome.reason if isinstance(settlement.outcome, Dead) else "worker_died"
            return AttemptFields(outcome, 0.0, None, reason, None, None)


def decode_detail(detail: bytes | str | None, said: str | None) -> Mapping[str, Any]:
    """What the log kept of an attempt, with what the receiver said that it did."""
    kept: dict[str, Any] = msgspec.json.decode(detail) if detail else {}
    return {**kept, "receiver_outcome": said} if said else kept


def _word(settlement: Settlement) -> str:
    match settlement.outcome:
        case Delivered():
            return "delivered"
        case Retry() | Gone():
            return "retry"
        case Dead():
            return "dead"


def _detail(settlement: Settlement, timings: Timings, head: bytes = b"", body: bytes = b"", text: str = "") -> bytes:
    # Bytes from outside are kept as Latin-1 text, which loses none and cannot fail.
    kept: dict[str, Any] = {"timings": timings, "rev": settlement.send.rev}
    if not isinstance(settlement.outcome, Delivered):
        kept["reason"] = settlement.outcome.reason
    if isinstance(settlement.outcome, Retry):
        kept["next_at"] = settlement.outcome.at
    if settlement.request:
        kept["request_head"] = settlement.request.decode("latin-1")
    if head:
        kept["response_head"] = head.decode("latin-1")
    if body:
        kept["response_body"] = body.decode("latin-1")
    if text:
        kept["error"] = text
    return _encoder.encode(kept)
