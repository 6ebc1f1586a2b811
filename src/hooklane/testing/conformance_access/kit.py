"""Keys, sessions and acts to try a store with."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from hooklane.model.api_key import ApiKey, Scope, Session, SessionKind
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.store.access import AccessStore
from hooklane.store.types import TypeStore
from hooklane.testing.conformance_recovery import kit as recovery_kit

NOW = recovery_kit.NOW


class Store(recovery_kit.Store, AccessStore, TypeStore, Protocol):
    """What a store for the sender offers, with what it keeps about callers."""


def act(action: str, subject: str) -> Act:
    return Act(tenant="default", at=NOW, actor="ann", action=action, subject=subject)


def api_key(id: str = "key_a", **fields: Any) -> ApiKey:
    told = {
        "name": "ci",
        "digest": hashlib.sha256(id.encode()).digest(),
        "scopes": (Scope.PUBLISH, Scope.READ),
        "tenant": None,
        "created_at": NOW,
        **fields,
    }
    return ApiKey(id=id, **told)


def session(id: str = "ses_a", **fields: Any) -> Session:
    told = {
        "kind": SessionKind.PAGE,
        "digest": hashlib.sha256(id.encode()).digest(),
        "made_with": "key_a",
        "name": "ci",
        "scopes": (Scope.READ,),
        "tenant": "acme",
        "created_at": NOW,
        "expires_at": Instant(NOW + 1_000),
        **fields,
    }
    return Session(id=id, **told)
