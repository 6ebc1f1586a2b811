"""API keys, sessions and portal links in SQL. A revision tells each process when to read the keys again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.api_key import ApiKey, Scope, Session, SessionKind
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.store.revision import step
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.running import RunsFlows, reading, writing
from hooklane.store.sql.outbox.steps import Flow, sql


def _revision() -> Flow[int]:
    ((rev,),) = yield sql("key_rev")
    return int(rev)


def _add_key(key: ApiKey, act: Act) -> Flow[None]:
    yield sql("next_key_rev", step=step())
    yield sql(
        "add_key",
        id=key.id,
        name=key.name,
        digest=key.digest,
        scopes=" ".join(key.scopes),
        tenant=key.tenant,
        created_at=key.created_at,
        expires_at=key.expires_at,
    )
    yield from audit.append(act)


def _api_keys() -> Flow[tuple[int, Sequence[ApiKey]]]:
    rev = yield from _revision()
    rows = yield sql("api_keys")
    return rev, [_key(row) for row in rows]


def _remove_key(id: str, act: Act) -> Flow[bool]:
    yield sql("next_key_rev", step=step())
    if not (yield sql("remove_key", id=id)):
        return False
    yield sql("remove_sessions_of_key", id=id)
    yield from audit.append(act)
    return True


def _note_used(ids: Sequence[str], at: Instant) -> Flow[None]:
    yield sql("note_keys_used", ids=list(ids), at=at)


def _add_session(session: Session, act: Act | None = None) -> Flow[None]:
    yield sql("remove_expired_sessions", now=session.created_at)
    yield sql(
        "add_session",
        id=session.id,
        kind=str(session.kind),
        digest=session.digest,
        made_with=session.made_with,
        name=session.name,
        scopes=" ".join(session.scopes),
        tenant=session.tenant,
        created_at=session.created_at,
        expires_at=session.expires_at,
    )
    if act is not None:
        yield from audit.append(act)


def _session(digest: bytes) -> Flow[Session | None]:
    rows = yield sql("session", digest=digest)
    return _session_of(rows[0]) if rows else None


def _extend_session(id: str, until: Instant) -> Flow[None]:
    yield sql("extend_session", id=id, until=until)


def _remove_session(id: str) -> Flow[bool]:
    return bool((yield sql("remove_session", id=id)))


def _key(row: Sequence[Any]) -> ApiKey:
    id, name, digest, scopes, tenant, created_at, expires_at, last_used_at = row
    return ApiKey(
        id=id,
        name=name,
        digest=bytes(digest),
        scopes=_scopes(scopes),
        tenant=tenant,
        created_at=Instant(created_at),
        expires_at=None if expires_at is None else Instant(expires_at),
        last_used_at=None if last_used_at is None else Instant(last_used_at),
    )


def _session_of(row: Sequence[Any]) -> Session:
    id, kind, digest, made_with, name, scopes, tenant, created_at, expires_at = row
    return Session(
        id=id,
        kind=SessionKind(kind),
        digest=bytes(digest),
        made_with=made_with,
        name=name,
        scopes=_scopes(scopes),
        tenant=tenant,
        created_at=Instant(created_at),
        expires_at=Instant(expires_at),
    )


def _scopes(text: str) -> tuple[Scope, ...]:
    """A scope that this version does not know gives nothing."""
    known = set(Scope)
    return tuple(Scope(word) for word in text.split() if word in known)


class SqlAccess(RunsFlows):
    """`AccessStore`. What is asked for each call is read beside the deliveries: no long search may hold it up."""

    add_key = writing(_add_key)
    key_revision = reading(_revision)
    api_keys = reading(_api_keys)
    remove_key = writing(_remove_key)
    note_keys_used = writing(_note_used)
    add_session = writing(_add_session)
    session = reading(_session)
    extend_session = writing(_extend_session)
    remove_session = writing(_remove_session)
