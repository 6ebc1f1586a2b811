"""What a session keeps until it commits, where the store cannot take a transaction step by step.

Claims and new rows are written at once, leased and fenced, so that no two sessions get the same one. Everything else
is buffered with its condition and written by the commit, all of it or nothing. A rollback gives back what was claimed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import RowId, Track
from hooklane.model.message import Status

WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class State:
    """A step: the session's buffer."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: let *ms* pass."""

    ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What this session took, and what to make of it again if it rolls back."""

    fence: int
    status: Status = Status.PENDING
    due_at: Instant = START
    where: Any = None
    """Whatever else the store knows about it."""


@dataclass(slots=True)
class Waiting:
    """A handling that is owed to a track (or dead on it), as the track's line knows it."""

    id: RowId
    status: Status
    due_at: Instant
    seq: int | None
    prev_seq: int | None
    place: int = 0
    """Where it stands among all rows, where the store counts them apart from their ids."""
    where: str = ""
    """Where the store keeps it, where its id does not say it."""


@dataclass(slots=True)
class TrackState:
    """A track as this session sees it: held by it, and changed only here until the commit."""

    track: Track
    seq: int | None = None
    at: int | None = None
    tie: str = ""
    token: str | None = None
    version: int = 0
    waiting: dict[RowId, Waiting] = field(default_factory=dict)
    is_changed: bool = False

    def begin(self, baseline: int = 0) -> int:
        """The last applied seq; a track that is new begins at *baseline*."""
        if self.seq is None:
            self.seq, self.is_changed = baseline, True
        return self.seq


@dataclass(slots=True)
class Buffer:
    """One session's."""

    tx: Any
    """What a handler gets to write with."""
    token: str
    wait_ms: int
    later: list[Any] = field(default_factory=list)
    """Writes of the commit, each with its condition."""
    inserted: dict[RowId, Any] = field(default_factory=dict)
    claims: dict[tuple[RowId, str], Claim] = field(default_factory=dict)
    tracks: dict[Track, TrackState] = field(default_factory=dict)
    digests: dict[tuple[str, str, bytes], str] = field(default_factory=dict)
    given_up: set[tuple[str, str]] = field(default_factory=set)
    """Handlings (row, handler) that this session settles by hand: their tracks do not know of it yet."""

    def holds(self, id: RowId, handler: str, fence: int) -> bool:
        """Whether this very session took the claim, so that the store need not be asked again."""
        claim = self.claims.get((id, handler))
        return claim is not None and claim.fence == fence


def new_buffer(tx: Any, wait_ms: int | None) -> Buffer:
    """For a session that waits so long for what others hold."""
    return Buffer(tx, secrets.token_hex(8), WAIT_MS if wait_ms is None else wait_ms)
