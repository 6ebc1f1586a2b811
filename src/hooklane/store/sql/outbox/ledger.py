"""Does the ledger add up? Every delivery counted from the rows, and compared with what the counters promise."""

from __future__ import annotations

from collections import Counter, defaultdict

from hooklane.model.lane import DeliveryState
from hooklane.model.size import counted
from hooklane.store.recovery import LedgerLine
from hooklane.store.sql.outbox.steps import Flow, sql

_Account = tuple[str, str]
"""A tenant and an endpoint."""
FAULTS_MAX = 20


def check_ledger() -> Flow[list[LedgerLine]]:
    """Count every delivery from the rows, and compare; run it on one snapshot."""
    accepted: Counter[_Account] = Counter()
    counts: dict[_Account, Counter[DeliveryState]] = defaultdict(lambda: Counter(dict.fromkeys(DeliveryState, 0)))
    faults: dict[_Account, list[str]] = defaultdict(list)
    for tenant, endpoint_id, tails, passed, ahead in (yield sql("check_lanes")):
        account = (tenant, endpoint_id)
        accepted[account] += tails
        counts[account][DeliveryState.DELIVERED] += passed
        if ahead:
            faults[account].append(f"{counted(ahead, 'lane has its head', 'lanes have their heads')} beyond the tail")
    for tenant, endpoint_id, kind, many in (yield sql("check_passed")):
        account = (tenant, endpoint_id)
        counts[account][DeliveryState(kind)] += many
        counts[account][DeliveryState.DELIVERED] -= many
    for account, found in counts.items():
        if found[DeliveryState.DELIVERED] < 0:
            faults[account].append(f"{-found[DeliveryState.DELIVERED]} more passed over than reached")
    for tenant, endpoint_id, many in (yield sql("check_loose")):
        accepted[tenant, endpoint_id] += many
    for name in ("check_owed", "check_loose_by_state"):
        for tenant, endpoint_id, state, many in (yield sql(name)):
            counts[tenant, endpoint_id][DeliveryState(state)] += many
    for tenant, endpoint_id, key, head in (yield sql("check_blocked_without_letter")):
        faults[tenant, endpoint_id].append(f"#{head} of {key} is dead and has no dead letter")
    for tenant, endpoint_id, letter in (yield sql("check_letter_without_dead")):
        faults[tenant, endpoint_id].append(f"{letter} is a dead letter of nothing dead")
    return [
        LedgerLine(
            tenant=account[0],
            endpoint_id=account[1],
            accepted=accepted[account],
            counts=dict(counts[account]),
            faults=tuple(faults[account][:FAULTS_MAX]),
        )
        for account in sorted(set(accepted) | set(counts))
    ]
