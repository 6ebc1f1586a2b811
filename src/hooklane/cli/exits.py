"""With which code does a command end?"""

from __future__ import annotations

from enum import IntEnum

from hooklane.errors import HooklaneError


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4  # or changed since the plan
    UNREACHABLE = 5
    PARTLY = 6
    UNHEALTHY = 7
    BROKEN = 70  # a part of a server failed unexpectedly, or its disk did


class CallFailed(HooklaneError):
    """The server (or the store, directly) said no; *exit* is the code to end with."""

    def __init__(self, message: str, exit_: Exit = Exit.FAILED, code: str = "") -> None:
        super().__init__(message)
        self.exit = exit_
        self.code = code


_CODES = {"invalid_parameter": Exit.USAGE, "invalid_body": Exit.USAGE}
"""Problems of the API that a wrong option or argument makes: the same as if the command had seen it itself."""


def exit_of(status: int, code: str = "") -> Exit:
    """The exit code that fits an answer of the API."""
    match status:
        case 404:
            return Exit.NOT_FOUND
        case 401 | 403 | 409:
            return Exit.REFUSED
        case 503:
            return Exit.UNREACHABLE  # the server answers, and what it keeps its data in does not
        case _:
            return _CODES.get(code, Exit.FAILED)
