"""How does an owner say that events have landed? By one statement, fenced by the epoch of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hooklane.model.attempt import Delivered, Settlement, Write
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer
from hooklane.model.lane import LaneId
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.outbox import CommitReport
from hooklane.store.postgres.literals import numbers, texts

# FOR SHARE waits for a takeover that is under way and then does not find the row; FOR KEY SHARE would not wait, since a
# takeover changes no key. The rows stay locked until this transaction ends, so no takeover comes between. (It is not
# written as a join: a plan for any number of partitions compared each with each, and that took longer than the rest.)
# An ack of an ordered lane is an insert and nothing else: only the owner moves a head that is not dead. To ask of each
# attempt whether it is in the log already costs as much as to write it, so only a commit that is made again asks.
FENCED_ACKS = """
WITH mine AS MATERIALIZED (
    SELECT p.pid FROM hooklane.part p
    WHERE p.owner = :worker AND p.pid = ANY(:pids::integer[])
      AND p.epoch = (:epochs::bigint[])[array_position(:pids::integer[], p.pid)]
    ORDER BY p.pid FOR SHARE OF p
), done AS MATERIALIZED (
    SELECT d.* FROM unnest(:ack_pids::text::integer[], :ack_lanes::text::bigint[], :ack_heads::text::bigint[],
        :ack_tenants::text::text[], :ack_ats::text::bigint[], :log_starts::text::bigint[],
        :log_attempts::text::integer[], :log_tooks::text::double precision[], :log_statuses::text::integer[],
        :log_saids::text::text[])
        AS d (pid, lane_id, head, tenant, at, started_at, attempt, took_ms, status, said)
    JOIN mine USING (pid)
), acked AS (
    INSERT INTO hooklane.ack (pid, lane_id, head, tenant, at) SELECT pid, lane_id, head, tenant, at FROM done
), logged AS (
    INSERT INTO hooklane.attempt (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, said)
    SELECT lane_id, head - 1, started_at, attempt, tenant, took_ms, 'delivered', status, said FROM done
    {repeated}
)
SELECT hooklane.now_ms(), ARRAY(SELECT pid FROM mine), set_config('synchronous_commit', 'on', true)
"""


def pid_of(write: Write) -> int:
    return write.send.pid if isinstance(write, Settlement) else write.pid


def is_ack(write: Write) -> bool:
    """Whether it is the write that nearly all are: the ack of an ordered lane."""
    return isinstance(write, Settlement) and write.outcome.__class__ is Delivered and write.send.lane_id > 0


def fenced_acks(worker: str, epochs: Mapping[int, int], writes: Sequence[Write], *, again: bool) -> Statement:
    """Lock what is ours of the partitions that *writes* touch, and append the acks among them.

    Unless *again*, one that is in the log already violates its key, and nothing is written.
    """
    pids = sorted({pid_of(write) for write in writes} & epochs.keys())
    acks = [write for write in writes if isinstance(write, Settlement) and is_ack(write)]
    sends = [ack.send for ack in acks]
    log = [_answered(ack) for ack in acks]
    return Statement(
        FENCED_ACKS.format(repeated="ON CONFLICT DO NOTHING" if again else ""),
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


def _answered(ack: Settlement) -> Answer:
    """By what an event was delivered."""
    assert isinstance(ack.result, Answer)
    return ack.result


def report_of(rows: Rows, writes: Sequence[Write], stale: Iterable[LaneId] = ()) -> CommitReport:
    ((now, mine, _),) = rows
    return CommitReport(Instant(now), frozenset(map(pid_of, writes)) - frozenset(mine), frozenset(stale))
