"""How does an owner say that events have landed? By one statement, fenced by the epoch of each partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeGuard

from hooklane.model.attempt import Delivered, Settlement, Write
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer
from hooklane.model.lane import LaneId
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.outbox import CommitReport
from hooklane.store.postgres.literals import numbers, texts
from hooklane.store.postgres.outbox.statements import SQL


def pid_of(write: Write) -> int:
    return write.send.pid if isinstance(write, Settlement) else write.pid


def is_ack(write: Write) -> TypeGuard[Settlement]:
    """Whether it is the write that nearly all are: the ack of an ordered lane."""
    return isinstance(write, Settlement) and write.outcome.__class__ is Delivered and write.send.lane_id > 0


def fenced_acks(
    worker: str,
    epochs: Mapping[int, int],
    writes: Sequence[Write],
    *,
    again: bool,
    lost: Collection[LaneId] = (),
) -> Statement:
    """Lock what is ours of the partitions that *writes* touch, and append the acks among them, but for *lost* lanes.

    Unless *again*, one that is in the log already violates its key, and nothing is written.
    """
    pids = sorted({pid_of(write) for write in writes} & epochs.keys())
    acks = [write for write in writes if is_ack(write)]
    if lost:
        acks = [ack for ack in acks if ack.send.lane_id not in lost]
    sends = [ack.send for ack in acks]
    log = [_answered(ack) for ack in acks]
    return Statement(
        SQL["ack_again" if again else "ack"],
        {
            "worker": worker,
            "pids": pids,
            "epochs": [epochs[pid] for pid in pids],
            "ack_pids": numbers([send.pid for send in sends]),
            "ack_lanes": numbers([send.lane_id for send in sends]),
            "ack_heads": numbers([send.seq + 1 for send in sends]),
            "ack_tenants": texts([send.event.tenant for send in sends]),
            "ack_ats": numbers([ack.at for ack in acks]),
            "log_starts": numbers([send.at for send in sends]),
            "log_attempts": numbers([send.attempt for send in sends]),
            "log_tooks": numbers([answer.timings.total_ms for answer in log]),
            "log_statuses": numbers([answer.status for answer in log]),
            "log_saids": texts([answer.outcome for answer in log]),
        },
    )


def first_acks(worker: str, epochs: Mapping[int, int], acks: Sequence[Write]) -> Statement:
    """The same for acks that are made for the first time, of partitions that are in *epochs*."""
    ack = acks[0]
    if len(acks) > 1 or not isinstance(ack, Settlement):
        return fenced_acks(worker, epochs, acks, again=False)
    send, answer = ack.send, _answered(ack)
    return Statement(
        SQL["ack_one"],
        {
            "worker": worker,
            "pid": send.pid,
            "epoch": epochs[send.pid],
            "lane": send.lane_id,
            "head": send.seq + 1,
            "tenant": send.event.tenant,
            "at": ack.at,
            "started": send.at,
            "attempt": send.attempt,
            "took": answer.timings.total_ms,
            "status": answer.status,
            "said": answer.outcome,
        },
    )


def _answered(ack: Settlement) -> Answer:
    """By what an event was delivered."""
    assert isinstance(ack.result, Answer)
    return ack.result


def report_of(rows: Rows, writes: Sequence[Write], stale: Iterable[LaneId] = ()) -> CommitReport:
    ((now, mine, _),) = rows
    return CommitReport(Instant(now), frozenset(map(pid_of, writes)) - frozenset(mine), frozenset(stale))
