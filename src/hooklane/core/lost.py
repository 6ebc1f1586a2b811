"""What becomes of a lane when the database has lost some of its last events?

A failover to an asynchronous standby loses the last commits. Receivers have seen seqs that the database does not know
any more, and it would give them to other events, which receivers drop as old ones. So the lane jumps: places of which
the event is lost are filled, and whatever was published there since moves up behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.lost import Ids, Mend, is_lost_id


def mend(sent: Ids, stored: Ids, head: int, tail: int) -> Mend | None:
    """*sent* are the events that a process remembers, *stored* what stands from its first seq on now.

    None where nothing is lost that is not on record. A place below the tail in which nothing stands was pruned, and is
    no loss.
    """
    there = {ids[0] for ids in stored.values()}
    lost = {seq: [id for id in ids if id not in there] for seq, ids in sent.items()}
    filled = {seq for seq, ids in stored.items() if is_lost_id(ids[0])}
    unnamed = {seq: some for seq in filled if (some := [id for id in lost.get(seq, ()) if id not in stored[seq]])}
    gone = sorted(seq for seq, ids in sent.items() if seq > tail or _is_another(stored.get(seq, ids), ids[0]))
    if not gone:
        return Mend(tail + 1, {}, (), tail, {}, unnamed) if unnamed else None
    reused = {seq: lost[seq] or sent[seq][:1] for seq in gone if seq < head}
    # From the last place that is known to be right: what stands between may be new as well, and what is new in a seq
    # that receivers have seen is lost to them, while what is old and moves is only sent once more.
    right = max((seq for seq in (*sent, *filled) if seq < gone[0]), default=gone[0] - 1)
    first = max(min(right, tail) + 1, head)
    if gone[-1] < first:
        return Mend(first, {}, (), tail, reused, unnamed)
    last = max(gone[-1], *filled, 0)  # a place that was filled before is one that receivers have seen
    fill = {seq: lost.get(seq, []) for seq in range(first, last + 1) if seq not in filled}
    others = [seq for seq in sorted(stored) if seq >= first and seq not in filled]
    moves = tuple(zip(others, range(last + 1, last + 1 + len(others)), strict=True))
    return Mend(first, fill, moves, last + len(others), reused, unnamed)


def _is_another(stored: Sequence[str], first_sent: str) -> bool:
    """Whether another event stands there than the one that receivers know by that seq, and that is not on record."""
    return first_sent not in stored and not is_lost_id(stored[0])
