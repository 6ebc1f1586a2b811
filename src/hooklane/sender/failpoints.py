"""Where can a test stop or kill the sender? Named points in the shell, off unless the environment sets them.

`HOOKLANE_FAILPOINTS="after_2xx=stall:8000@3;before_commit=kill@10"`: at the 3rd hit stall the whole process for 8 s,
as a long pause of the machine would; at the 10th die as of kill -9. Without them a missing fence goes unnoticed.
`before_send=kill:evt_7` dies of that event, whenever it is about to be sent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from hooklane.errors import ConfigError

NAMES = ("before_send", "after_2xx", "before_commit", "after_commit")


@dataclass(slots=True)
class _Point:
    action: str
    stall_ms: int
    event_id: str | None
    hits_left: int


class Failpoints:
    """The points that are set; `hit` does nothing for the others."""

    def __init__(self, text: str = "") -> None:
        self._points: dict[str, _Point] = {}
        for part in filter(None, text.split(";")):
            name, _, rest = part.partition("=")
            what, _, count = rest.partition("@")
            action, _, more = what.partition(":")
            known = name in NAMES and action in ("stall", "kill") and (count or "1").isdecimal()
            if not known or (action == "stall" and not more.isdecimal()):
                expected = "point=stall:MS@N, point=kill@N or point=kill:EVENT"
                raise ConfigError([f"HOOKLANE_FAILPOINTS: expected {expected}, got {part!r}"])
            stall_ms, event_id = (int(more), None) if action == "stall" else (0, more or None)
            self._points[name] = _Point(action, stall_ms, event_id, int(count or 1))

    @classmethod
    def from_environment(cls) -> Failpoints:
        return cls(os.environ.get("HOOKLANE_FAILPOINTS", ""))

    @property
    def hit(self) -> Callable[..., None] | None:
        """The function to call at each point, or None so that the hot path can skip it."""
        return self._hit if self._points else None

    def _hit(self, name: str, event_id: str | None = None) -> None:
        point = self._points.get(name)
        if point is None or point.event_id not in (None, event_id):
            return
        point.hits_left -= 1
        if point.hits_left:
            return
        if point.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        # Blocking on purpose: nothing in this process may go on, not even the renewal of its lease.
        time.sleep(point.stall_ms / 1000)
