"""What do both sides say of each key? The sender is asked first, then the receiver: so what the one has on record as
delivered was with the other by then."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from hooklane.cli.filters import rfc3339_of, time_of
from hooklane.cli.reconcile_sides import ReceiverSide, SenderSide
from hooklane.core.reconcile import NOT_APPLIED, InLine, KeyFacts, Lost, Received

ROWS_MAX = 10_000


@dataclass(slots=True)
class Found:
    """What was found, and what cannot be known."""

    since: str
    facts: list[KeyFacts] = field(default_factory=list)
    events: int = 0
    is_complete: bool = True
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _OfKey:
    acked: int | None = None
    applied: int | None = None
    lost: list[Lost] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    line: InLine | None = None


def compare(sender: SenderSide, receiver: ReceiverSide, *, since: str, key: str | None, limit: int) -> Found:
    """Every key with something in between, and *key* in any case."""
    found = Found(_remembered(since, receiver.remembers_ms))
    keys: dict[str | None, _OfKey] = {key: _OfKey()} if key is not None else {}
    for lane_key, line in sender.owing(key):
        keys.setdefault(lane_key, _OfKey()).line = line
    _look_at_delivered(sender, receiver, keys, found, key, limit)
    rows = list(islice(receiver.owed(key, ROWS_MAX), ROWS_MAX))
    for name, row in rows:
        keys.setdefault(name, _OfKey()).received.append(row)
    if len(rows) == ROWS_MAX:
        found.unknown.append(f"more than {ROWS_MAX:,} rows of the receiver are not applied: the rest was not read")
    for name in sorted(keys, key=lambda one: (one is None, one or "")):
        of_key = keys[name]
        if name == key or of_key.lost or of_key.received or of_key.line:
            found.facts.append(_facts_of(sender, receiver, name, of_key))
    found.unknown.append(f"what was published before {found.since}: a receiver may have forgotten it by now")
    return found


def _remembered(since: str, remembers_ms: int | None) -> str:
    """*since* as the API reads it; later, where a receiver forgets sooner."""
    at, now = time_of(since, "--since"), datetime.now(UTC)
    if at is not None and remembers_ms is not None and at < now - timedelta(milliseconds=remembers_ms):
        since = (now - timedelta(milliseconds=remembers_ms)).isoformat()
    return rfc3339_of(since, "--since") or ""


def _look_at_delivered(
    sender: SenderSide,
    receiver: ReceiverSide,
    keys: dict[str | None, _OfKey],
    found: Found,
    key: str | None,
    limit: int,
) -> None:
    for page in sender.delivered(found.since, key, limit):
        found.events += len(page)
        statuses = receiver.statuses(page)
        for one in page:
            of_key = keys.setdefault(one.key, _OfKey())
            of_key.acked = _higher(of_key.acked, one.seq)
            status = statuses.get(one.event_id)
            if status is None:
                of_key.lost.append(Lost(event_id=one.event_id, seq=one.seq))
            elif status not in NOT_APPLIED:
                of_key.applied = _higher(of_key.applied, one.seq)
    if found.events >= limit:
        found.is_complete = False
        found.unknown.append(f"only the newest {limit:,} delivered events were looked at: raise --limit for more")


def _facts_of(sender: SenderSide, receiver: ReceiverSide, name: str | None, of_key: _OfKey) -> KeyFacts:
    cursor = None if name is None else receiver.applied(name)
    line = of_key.line if of_key.line is not None or name is None else sender.lane(name)
    acked = of_key.acked
    if acked is None and line is not None and line.head > 1:
        acked = line.head - 1  # delivered or skipped before what was looked at
    # What is not after the cursor was applied once, and its row was removed since.
    lost = [one for one in of_key.lost if cursor is None or one.seq is None or one.seq > cursor]
    return KeyFacts(
        key=name,
        acked=acked,
        applied=of_key.applied if cursor is None else cursor,
        line=line,
        lost=sorted(lost, key=lambda one: one.seq or 0),
        received=of_key.received,
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((seq for seq in (one, other) if seq is not None), default=None)
