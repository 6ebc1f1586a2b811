"""Which process is this, and is another one of this machine dead? The kernel tells; elsewhere nothing is certain."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hooklane.model.worker_name import ProcessIdentity, WorkerName, worker_name_of

_PROC = Path("/proc")
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9_.-]")


@cache
def _place() -> str:
    """Two processes of one place see each other's pids. A copy of a machine has another host name."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""  # no Linux, or a kernel that tells nothing: leases decide
    return hashlib.sha256(f"{socket.gethostname()} {boot} {namespace}".encode()).hexdigest()[:16]


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    found = _state_and_start(pid)
    return ProcessIdentity(pid, 0, "") if found is None else ProcessIdentity(pid, found[1], _place())


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """The state and the start of a process, as the kernel tells them; None where it does not."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
        # The command's name stands in parentheses and may hold anything, parentheses too.
        fields = text[text.rindex(")") + 2 :].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def is_dead(process: ProcessIdentity, here: str) -> bool:
    """Whether *process* is of this place and certainly does nothing any more; a zombie does nothing."""
    if not process.place or process.place != here:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # it is another user's, or no pid at all: what the kernel tells of it decides
    found = _state_and_start(process.pid)
    if found is None:
        return False  # it has ended just now, or is hidden from us: the next look tells
    state, started = found
    return started != process.started or (state in "ZX" and not _has_threads(process.pid))


def _has_threads(pid: int) -> bool:
    """Whether threads go on though the first one has ended."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


def names_of_this_process(label: str | None = None) -> Callable[[], str]:
    """Makes names that no worker has had; *label* is the operator's name for this replica."""
    text = label or _NOT_IN_A_LABEL.sub("-", socket.gethostname())[:64] or "worker"
    return lambda: str(WorkerName(text, label is not None, this_process(), os.urandom(4).hex()))


def is_gone_for(label: str | None = None) -> Callable[[str], bool]:
    """Tells of a name in the roster whether its worker is certainly gone: there is no lease to wait for.

    So it is where its process is dead, and where its label is *label*: the operator has promised that a replica is
    started under a label only when the one before it has ended. A lost connection to the database proves nothing.
    """

    def is_gone(text: str) -> bool:
        name, me = worker_name_of(text), this_process()
        if name is None or name.process == me:
            return False
        return (label is not None and name.is_fixed and name.label == label) or is_dead(name.process, me.place)

    return is_gone
