"""Tracing: off until it is switched on, and then one trace from a publish over its attempts into the handler.

`active` is asked at the few places that a trace passes; while it is None nothing of OpenTelemetry is even imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from hooklane.model.attempt import Send
from hooklane.model.event import Event
from hooklane.telemetry.deliveries import Happening

TRACEPARENT = "traceparent"


class Tracing(Protocol):
    """What makes spans of what happens."""

    def publishing(self, events: Sequence[Event], parent: str | None) -> AbstractContextManager[None]:
        """A span round a publish; its context goes with *events*. *parent* is the caller's `traceparent`, if any."""

    def sending(self, send: Send) -> bytes:
        """An attempt begins: the header line that carries its span to the receiver."""

    def listen(self, happening: Happening) -> None:
        """The relay's listener: attempts end here."""

    def handling(self, fn: Callable[..., Any], about: Handling) -> Callable[..., Any]:
        """*fn* in a span that goes on from the attempt that brought its event."""


class Handling(Protocol):
    """What a span tells of an event that a handler is called with."""

    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def handler(self) -> str: ...
    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...


active: Tracing | None = None
"""Set by `use`, once, when a process starts."""


def use(tracing: Tracing | None) -> None:
    """Switch tracing on for this process, or with None off."""
    global active
    active = tracing


def publishing(events: Sequence[Event], parent: str | None = None) -> AbstractContextManager[None]:
    """A span round the publish of *events*; of an empty batch there is nothing to tell."""
    return nullcontext() if active is None or not events else active.publishing(events, parent)


def traced(fn: Callable[..., Any], about: Handling) -> Callable[..., Any]:
    return fn if active is None else active.handling(fn, about)
