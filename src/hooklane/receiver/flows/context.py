"""What every flow needs besides its message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.store.inbox import InboxStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a flow needs besides its message: the store, the time, and chance."""

    store: InboxStore
    clock: Callable[[], Instant]
    roll: Callable[[], float]
    can_send: bool = False
