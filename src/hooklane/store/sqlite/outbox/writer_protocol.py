"""What is the writer process asked for? Publishes and outcomes, as few values as say it all, and what came of them.

And what a server writes by itself now and then, as a flow that is known by its name.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hooklane.model.attempt import Delivered, Retry, Settlement, Write
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.exchange import Answer
from hooklane.model.lane import Grown
from hooklane.store.codec import attempt_fields
from hooklane.store.outbox import CommitReport, Draft, Published, PublishReport, Refused, Stamp, refused_whole
from hooklane.store.sql.outbox.steps import Flow
from hooklane.store.sqlite.outbox import outcomes
from hooklane.store.sqlite.outbox.lanes import Span
from hooklane.store.sqlite.outbox.outcomes import Ack, Held
from hooklane.store.sqlite.outbox.publish import Accepted, Placed
from hooklane.store.sqlite.outbox.statements import run
from hooklane.store.sqlite.outbox.writer_messages import (
    CommitRequest,
    Earlier,
    PublishAnswer,
    read_commit,
    read_drafts,
    read_published,
    read_report,
)
from hooklane.store.sqlite.writer_process import Work

PUBLISH, COMMIT, PUBLISH_ALL, FLOW = 1, 2, 3, 4
_encode: Final = msgspec.msgpack.Encoder().encode


# --- publishing ---


def publish_request(drafts: Sequence[Draft]) -> bytes:
    return _encode(
        [
            (
                *(e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of, e.trace),
                *(draft.asked, draft.names, draft.digest, draft.former),
            )
            for draft in drafts
            for e in (draft.event,)
        ]
    )


PlaceAll = Callable[[sqlite3.Connection, Sequence[Draft]], Placed]


def do_publish(place_all: PlaceAll) -> Work:
    """The writer process's part of it."""

    def do(conn: sqlite3.Connection, request: bytes) -> bytes:
        return _answer(place_all(conn, _drafts(request)))

    return do


def do_publish_all(place_all: PlaceAll, undone: Callable[[], None]) -> Work:
    """The same for a batch that is stored whole or not at all; what shares its commit is stored in either case."""

    def do(conn: sqlite3.Connection, request: bytes) -> bytes:
        conn.execute("SAVEPOINT batch")
        placed = place_all(conn, _drafts(request))
        refused = any(isinstance(result, Refused) for result in placed.results)
        if refused:
            conn.execute("ROLLBACK TO batch")
            undone()
        conn.execute("RELEASE batch")
        if not refused:
            return _answer(placed)
        return _encode(PublishAnswer([_refusal(result) for result in refused_whole(placed.results)], [], None))

    return do


def _drafts(request: bytes) -> list[Draft]:
    return [
        Draft(Event(id_, type_, key, data, Instant(at), tenant, replay_of, trace), asked, names, digest, former)
        for id_, type_, key, data, at, tenant, replay_of, trace, asked, names, digest, former in read_drafts(request)
    ]


def _answer(placed: Placed) -> bytes:
    results: list[Earlier | dict[str, str] | None] = []
    grown: list[tuple[int, int, int, str, str | None, int]] = []
    told: set[int] = set()
    for number, result in enumerate(placed.results):
        if isinstance(result, Accepted) and result.n not in told:
            told.add(result.n)
            results.append(None)
            for place, (endpoint_id, lane_id, seq) in zip(result.places, result.stamps, strict=True):
                grown.append((number, lane_id, place.pid, endpoint_id, place.key, seq or 1))
        elif isinstance(result, Refused):
            results.append(_refusal(result))
        else:
            results.append(_earlier(result))
    span = placed.span
    numbers = (span.lane_event_first, span.lane_event_last, span.loose_first, span.loose_last)
    return _encode(PublishAnswer(results, grown, numbers))


def _refusal(refused: Refused) -> dict[str, str]:
    return {"code": refused.code, "detail": refused.detail}


def _earlier(result: Published | Accepted) -> Earlier:
    if isinstance(result, Published):
        return Earlier(result.event_id, result.type, result.key, result.created_at, [*result.stamps])
    event = result.draft.event  # a twin in the same commit
    stamps = [(endpoint_id, seq) for endpoint_id, _, seq in result.stamps]
    return Earlier(event.id, event.type, event.key, event.created_at, stamps)


def published(drafts: Sequence[Draft], answer: bytes) -> PublishReport:
    """What the answer to a `publish_request` says of *drafts*."""
    told = read_published(answer)
    stamps: list[list[Stamp]] = [[] for _ in drafts]
    grown: list[Grown] = []
    for place, lane_id, pid, endpoint_id, key, seq in told.grown:
        grown.append(Grown(lane_id, pid, endpoint_id, key, seq, drafts[place].event))
        stamps[place].append(Stamp(endpoint_id, seq if lane_id > 0 else None))
    results: list[Published | Refused] = []
    for draft, result, mine in zip(drafts, told.results, stamps, strict=True):
        if result is None:
            event = draft.event
            results.append(Published(event.id, event.type, event.key, event.created_at, tuple(mine)))
        elif isinstance(result, Earlier):
            earlier = tuple(Stamp(*stamp) for stamp in result.stamps)
            at = Instant(result.created_at)
            results.append(Published(result.event_id, result.type, result.key, at, earlier, repeated=True))
        else:
            results.append(Refused(result["code"], result["detail"]))
    return PublishReport(results, grown, None if told.span is None else Span(*told.span))


# --- outcomes ---


def commit_request(worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> bytes:
    acks: list[Ack] = []
    held: list[Held] = []
    others: list[Write] = []
    for write in writes:
        if (
            isinstance(write, Settlement)
            and isinstance(write.outcome, Delivered)
            and (send := write.send).lane_id > 0
            and isinstance(result := write.result, Answer)
        ):
            acks.append(
                (
                    *(send.lane_id, send.pid, send.event.tenant, send.seq, send.attempt, send.at, write.at),
                    *(result.timings.total_ms, result.status, result.outcome, send.event.created_at),
                )
            )
        elif isinstance(write, Settlement) and isinstance(write.outcome, Retry) and write.send.lane_id > 0:
            held.append(_held(write, write.outcome))
        else:
            others.append(write)
    ours = {pid: epochs[pid] for pid in {write.pid for write in writes} if pid in epochs}
    return _encode(CommitRequest(worker, ours, acks, held, pickle.dumps(others) if others else b""))


def _held(settlement: Settlement, outcome: Retry) -> Held:
    """Endpoint and event are not sent along: to make them again would keep the writer process from its next commit."""
    send, (word, took_ms, status, failure, said, detail) = settlement.send, attempt_fields(settlement)
    return (
        *(send.lane_id, send.pid, send.event.tenant, send.seq, send.attempt, send.rev, settlement.at),
        *(outcome.at, outcome.reason, send.event.created_at, send.at),
        *(took_ms, word, status, failure, said, detail),
    )


def do_commit(conn: sqlite3.Connection, text: bytes) -> bytes:
    """The writer process's part of it."""
    request = read_commit(text)
    others: Sequence[Write] = pickle.loads(request.others) if request.others else ()
    report = outcomes.commit(conn, request.worker, request.epochs, others, request.acks, request.held)
    return _encode((report.now, list(report.fenced), list(report.stale)))


def committed(answer: bytes) -> CommitReport:
    now, fenced, stale = read_report(answer)
    return CommitReport(Instant(now), fenced, stale)


# --- what is written now and then ---


def flow_request(flow: Callable[..., Flow[Any]], args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
    """*flow* is a function of a module, so that its name says which."""
    return pickle.dumps((flow, args, named))


def do_flow(conn: sqlite3.Connection, text: bytes) -> bytes:
    """The writer process's part of it."""
    flow, args, named = pickle.loads(text)
    return pickle.dumps(run(conn, flow(*args, **named)))


def flowed(answer: bytes) -> Any:
    return pickle.loads(answer)  # from our own child
