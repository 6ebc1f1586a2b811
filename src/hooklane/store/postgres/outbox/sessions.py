"""Which session of the database answers, and does the one that read a mark still live?"""

from __future__ import annotations

from hooklane.model.session import Session


def session_of(description: str, *, pooled: bool, run: int = 0) -> Session:
    """*run* tells one life of a server from the next, where that is known (`postgres/runs.py`)."""
    system, timeline, pid, began_us, read_us = description.split(" ")
    began_at = int(began_us) if pooled else None
    return Session(f"{system} {timeline} {run}", f"{pid} {began_us}", began_at, int(read_us))


def session_params(session: Session) -> dict[str, int | str]:
    return {"session_pid": int(session.id.partition(" ")[0]), "session": session.id}
