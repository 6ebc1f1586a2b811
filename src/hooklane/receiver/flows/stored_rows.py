"""A stored row is owed again or given up, in a transaction that is open: what a server needs to know of a receiver.

No handler is asked here, so that this loads without what opens, verifies and handles a request.
"""

from __future__ import annotations

from hooklane.model.clock import Instant
from hooklane.model.inbox import Handling, Row, Track
from hooklane.model.message import Status
from hooklane.store.inbox import Flow, InboxVerbs

GAPS_MAX = 1_000_000


def owe_again(store: InboxVerbs, row: Row, only: str | None, now: Instant, status: Status | None = None) -> Flow[int]:
    """Owe *row* again to the handlers that it was given to; how many handlings are owed now."""
    reopened = 0
    for before in sorted(row.handlings, key=lambda each: each.handler):
        # What was applied in its place of a sequence is past: later events of its key stand on it.
        is_past = before.status is Status.COMPLETED and before.seq is not None
        if only in (None, before.handler) and status in (None, before.status) and not is_past:
            reopened += yield from store.reopen(row.id, before.handler, now=now, was=before.status)
    return reopened


def give_up_row(store: InboxVerbs, row: Row, note: str, now: Instant) -> Flow[bool]:
    """What `skip_row` does, in a transaction that is open; False when it was replayed or given up meanwhile."""
    return (yield from store.restate(row.id, Status.IGNORED, f"skipped: {note}", now, was=Status.DEAD))


def give_up(store: InboxVerbs, row: Row, handling: Handling, note: str, now: Instant) -> Flow[bool]:
    """What `skip` does, in a transaction that is open; False when there was nothing left to give up."""
    if handling.key is None or handling.seq is None or handling.prev_seq is None:
        return (yield from _settle(store, row, handling, note, now))
    track = Track(row.message.source, row.message.account, handling.handler, handling.key)
    after = handling.prev_seq
    if handling.status is Status.HELD:
        applied = yield from store.applied(track)
        if applied is not None and applied < after:
            gaps = yield from store.gaps(now, GAPS_MAX)
            if not any(gap.track == track and gap.prev_seq == after for gap in gaps):
                return False  # what it waits for is here, and comes first: given up now, it would never be passed
            after = applied  # what it waits for never came, and is given up with it
    done = yield from _settle(store, row, handling, note, now)
    if done and (yield from store.advance(track, prev_seq=after, seq=handling.seq)):
        yield from store.release(track, handling.seq, now)
    return done


def _settle(store: InboxVerbs, row: Row, handling: Handling, note: str, now: Instant) -> Flow[bool]:
    skipped = f"skipped: {note}"
    return store.settle(row.id, handling.handler, Status.IGNORED, skipped, now, was=handling.status)
