"""A worker's name in the roster. It says which process that is, so that others can tell when the process is dead."""

from __future__ import annotations

import re
from dataclasses import dataclass

LABEL_MAX = 64
LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_NAME = re.compile(r"(=?)([A-Za-z0-9_.-]{1,64}):([0-9]{1,10})\.([0-9]{1,20})@([0-9a-f]{0,16}):([0-9a-f]{8})\Z")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its pid and start, and the *place* in which such a pid means anything (empty where not known)."""

    pid: int
    started: int
    """In ticks since the machine's boot: a pid that is given out again has another one."""
    place: str
    """A digest of host, boot and PID namespace."""


@dataclass(frozen=True, slots=True)
class WorkerName:
    """What a name in the roster says."""

    label: str
    """The host's name, or the one that the operator has given to this replica."""
    is_fixed: bool
    """Whether the operator has given it: no other process has the label at the same time."""
    process: ProcessIdentity
    nonce: str
    """A process has several names in its life, none of them twice."""

    def __str__(self) -> str:
        fixed, process = "=" if self.is_fixed else "", self.process
        return f"{fixed}{self.label}:{process.pid}.{process.started}@{process.place}:{self.nonce}"


def worker_name_of(text: str) -> WorkerName | None:
    """What *text* says; None for a name of another form, whose worker may be anywhere."""
    found = _NAME.match(text)
    if found is None:
        return None
    fixed, label, pid, started, place, nonce = found.groups()
    return WorkerName(label, fixed != "", ProcessIdentity(int(pid), int(started), place), nonce)
