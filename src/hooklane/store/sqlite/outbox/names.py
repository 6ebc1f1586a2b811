"""Who has a name? An idempotency key or an event's own id is used once; the same content again is the same event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hooklane.store.caller.flow import Statement
from hooklane.store.outbox import FORGOTTEN, Draft, Holder, Published, Refused, Stamp
from hooklane.store.sqlite.outbox.statements import SQL
from hooklane.store.sqlite.rows import Many, PublishFlow, Quiet, blob

_CLAIM = Quiet(SQL["claim_names"])


def claim_all(numbered: Sequence[tuple[Draft, int]]) -> PublishFlow[bool]:
    """Take the names of all drafts at once, each for its row; False, and nothing taken, where one is not free."""
    rows = [
        (draft.event.tenant, name, blob(draft.digest), n, draft.event.created_at)
        for draft, n in numbered
        for name in draft.names
    ]
    if not rows:
        return True
    if len({row[:2] for row in rows}) < len(rows):
        return False  # twins in one commit
    if (
        len((yield Many(_CLAIM, rows))) == len(rows)
        and not (yield from _is_one_stored(numbered))
        and not (yield from _is_one_named(numbered))
    ):
        return True
    for tenant, name, _, n, _ in rows:
        yield Statement(SQL["free_claimed_name"], {"tenant": tenant, "name": name, "n": n})
    return False


def _is_one_stored(numbered: Sequence[tuple[Draft, int]]) -> PublishFlow[bool]:
    """Whether an id that a caller chose, and that has no name, is one that we gave to an earlier event."""
    own = [(draft.event.tenant, draft.event.id) for draft, _ in numbered if draft.has_own_id]
    return bool(own and (yield Statement(SQL["is_one_stored"], {"ids": msgspec.json.encode(own).decode()})))


def _is_one_named(numbered: Sequence[tuple[Draft, int]]) -> PublishFlow[bool]:
    """Whether an event may have been published under what an older hooklane called a name."""
    former = [(draft.event.tenant, draft.former) for draft, _ in numbered if draft.former is not None]
    return bool(former and (yield Statement(SQL["is_one_named"], {"names": msgspec.json.encode(former).decode()})))


def claim(draft: Draft, n: int, ids: Mapping[int, str]) -> PublishFlow[int | Refused | None]:
    """Take the draft's names for row *n*; else the row of the event that it repeats, or why it may not come in.

    A name that it has beside those of the event that it repeats is that event's from now on. *ids* are those of this
    commit's events, by their rows.
    """
    found = [
        by._replace(event_id=ids[by.n]) if by is not None and by.n in ids else by for by in (yield from _found(draft))
    ]
    taken = draft.repeats(found)
    if isinstance(taken, Refused):
        return taken
    event = draft.event
    owner = taken or Holder(draft.digest, n, event.id, event.created_at)
    for name, by in zip(draft.names, found, strict=True):
        if by is None:
            row = (event.tenant, name, owner.digest, owner.n, owner.created_at)
            yield Statement(_CLAIM.single, dict(zip(_CLAIM.columns, row, strict=True)))
    return None if taken is None else int(taken.n)


def known_before(draft: Draft) -> PublishFlow[Published | Refused | None]:
    """What the draft was answered before; None where none of its names is taken."""
    taken = draft.repeats((yield from _found(draft)))
    if isinstance(taken, Holder):
        return (yield from published_before(draft.event.tenant, taken.n))
    return taken


def _found(draft: Draft) -> PublishFlow[list[Holder | None]]:
    """Who has each of the draft's names."""
    tenant, own_id = draft.event.tenant, f"id:{draft.event.id}"
    found: dict[str, Holder | None] = {}
    for name in draft.names:
        found[name] = yield from _holder(tenant, name)
    if draft.former is not None and found[draft.names[0]] is None:
        former = yield from _holder(tenant, draft.former)
        found[draft.names[0]] = former if former is not None and former.digest == draft.digest else None
    if own_id in found and found[own_id] is None:
        found[own_id] = yield from _holder_of_id(draft)
    return list(found.values())


def _holder(tenant: str, name: str) -> PublishFlow[Holder | None]:
    for digest, n, event_id, answer, created_at in (
        yield Statement(SQL["holder_of_name"], {"tenant": tenant, "name": name})
    ):
        kept = msgspec.json.decode(answer)[0] if event_id is None and answer is not None else None
        return Holder(bytes(digest), n, event_id or kept, created_at)
    return None


def _holder_of_id(draft: Draft) -> PublishFlow[Holder | None]:
    """The event that we gave the draft's own id to, if there is one."""
    event = draft.event
    for n, type_, key, data, stamps, created_at in (
        yield Statement(SQL["event_by_id"], {"tenant": event.tenant, "id": event.id})
    ):
        endpoints = [endpoint for endpoint, _, _ in msgspec.json.decode(stamps)]
        is_same = draft.is_same(type_, key, bytes(data), endpoints)
        return Holder(draft.digest if is_same else b"", n, event.id, created_at)
    return None


def published_before(tenant: str, n: int) -> PublishFlow[Published | Refused]:
    """The answer that the event with the number *n* was given, if it is one of *tenant*."""
    rows = yield Statement(SQL["published_event"], {"tenant": tenant, "n": n})
    if not rows:  # the event was pruned; its answer was kept with its name
        kept = yield Statement(SQL["kept_answer"], {"tenant": tenant, "n": n})
        rows = [msgspec.json.decode(answer) for (answer,) in kept]
    if not rows:
        return FORGOTTEN
    ((event_id, type_, key, created_at, stamps),) = rows
    places = tuple(Stamp(endpoint, seq) for endpoint, _, seq in msgspec.json.decode(stamps))
    return Published(event_id, type_, key, created_at, places, repeated=True)
