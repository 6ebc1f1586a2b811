"""What did the receiver under test answer?"""

from __future__ import annotations

from typing import Any

from hooklane.errors import UsageError
from hooklane.model.message import Reply


class Answers(tuple[Reply, ...]):
    """What a receiver answered to each copy, in the order in which they were delivered."""

    __slots__ = ()

    @property
    def statuses(self) -> list[int]:
        return [reply.status for reply in self]

    @property
    def verdicts(self) -> list[str | None]:
        """The words of `hooklane-outcome`: stored, applied, duplicate, …"""
        return [next((value for name, value in reply.headers if name == "hooklane-outcome"), None) for reply in self]


def as_reply(answer: Any) -> Reply:
    """A `Reply` from what a function answers: one, a status, or a response of a framework's test client."""
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, int):
        return Reply(answer)
    status = getattr(answer, "status_code", None)
    if isinstance(status, int):
        headers = getattr(answer, "headers", {})
        return Reply(status, b"", tuple((str(name).lower(), str(value)) for name, value in dict(headers).items()))
    raise UsageError(f"a receiver answers a status or a Reply, got {answer!r}")
