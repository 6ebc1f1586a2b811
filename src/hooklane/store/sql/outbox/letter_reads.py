"""Which events are dead, and what waits behind each?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hooklane.model.audit import Act
from hooklane.store.budget import Budget
from hooklane.store.cursors import letter_place_of
from hooklane.store.dashboard import Cause
from hooklane.store.reads import DeadLetter, LetterFilter, Page
from hooklane.store.recovery import Wanted
from hooklane.store.shown import dead_letter_of
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.board import last_words
from hooklane.store.sql.outbox.steps import N_MAX, Flow, pattern, sql

CAUSES_LETTERS_MAX = 50_000
"""Letters whose causes are counted, the oldest."""


def dead_letters(tenant: str, wanted: LetterFilter, cursor: str | None, limit: int) -> Flow[Page[DeadLetter]]:
    """The oldest first: it has waited longest. A page that looked at enough ends early."""
    params = wanted_params(tenant, wanted)
    # What died before `after` need not be looked at: letters stand by when they died.
    start = cursor if cursor is not None or wanted.after is None else f"{max(0, wanted.after - 1)}.~"
    rows, following = yield from letters(
        "dead_letters", params, "open", start, limit, place=lambda row: (row[9], row[0])
    )
    return Page([dead_letter_of(row) for row in rows], following)


def newest(tenant: str, after: tuple[int, str], limit: int) -> Flow[list[DeadLetter]]:
    rows = yield sql("newest_letters", tenant=tenant, died_at=after[0], letter=after[1], limit=limit)
    return [dead_letter_of(row) for row in rows]


def words(letters: Sequence[DeadLetter]) -> Flow[dict[str, str | None]]:
    """What the endpoints answered last."""
    found = yield from last_words([(one.event_at or 0, one.lane_id, one.seq or 1) for one in letters])
    return {one.id: found.get(one.lane_id, (None, None))[1] for one in letters}


def causes(tenant: str) -> Flow[list[Cause]]:
    rows = yield sql("causes", tenant=tenant, window=CAUSES_LETTERS_MAX)
    return sorted((Cause(*row) for row in rows), key=lambda cause: (-cause.letters, cause.endpoint_id, cause.reason))


def assign(tenant: str, dead_letter_id: str, assignee: str, act: Act) -> Flow[bool]:
    done = bool((yield sql("assign_letter", tenant=tenant, id=dead_letter_id, assignee=assignee)))
    if done:
        yield from audit.append(act)
    return done


def wanted_params(tenant: str, wanted: LetterFilter | Wanted) -> dict[str, Any]:
    """What *wanted* asks for, as parameters of a statement."""
    return {
        "tenant": tenant,
        "endpoint": wanted.endpoint_id,
        "key": wanted.key,
        "type": pattern(wanted.type),
        "reason": pattern(wanted.reason, one=True),
        "after": wanted.after,
        "before": wanted.before,
    }


def letters(
    name: str,
    params: Mapping[str, Any],
    state: str,
    cursor: str | None,
    limit: int,
    *,
    place: Callable[[Sequence[Any]], tuple[int, str]],
) -> Flow[tuple[list[Sequence[Any]], str | None]]:
    """The rows of the statement *name* for dead letters in *state*, window by window, and where the next page goes on.

    *place* takes (died_at, id) out of a row.
    """
    budget, at = Budget(), letter_place_of(cursor)
    found: list[Sequence[Any]] = []
    while True:
        span = {"tenant": params["tenant"], "died_at": at[0], "letter": at[1]}
        last = yield sql(f"letter_window_{state}", **span, at=budget.window - 1)
        upto = (last[0][0], last[0][1]) if last else (N_MAX, "")
        asked = {**params, **span, "upto_at": upto[0], "upto_letter": upto[1], "limit": limit + 1 - len(found)}
        found += yield sql(name, **asked)
        if len(found) > limit:
            died_at, letter = place(found[limit - 1])
            return found[:limit], f"{died_at}.{letter}"
        if not last:
            return found, None
        budget.spend(budget.window)
        at = upto
        if budget.is_spent:
            return found, f"{at[0]}.{at[1]}"


def dead_letter(tenant: str, dead_letter_id: str) -> Flow[DeadLetter | None]:
    rows = yield sql("dead_letter", tenant=tenant, id=dead_letter_id)
    return dead_letter_of(rows[0]) if rows else None


def set_note(tenant: str, dead_letter_id: str, note: str, act: Act | None = None) -> Flow[bool]:
    done = bool((yield sql("set_note", tenant=tenant, id=dead_letter_id, note=note)))
    if done and act is not None:
        yield from audit.append(act)
    return done
