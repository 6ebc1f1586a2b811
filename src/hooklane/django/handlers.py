"""Handlers of `<app>/webhooks.py`: written down when they are imported, given to the inbox when there is one.

Importing a module must not open the database: not in `manage.py migrate`, nor before a test has its own, nor in a
server that forks after it has loaded the application.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from hooklane.django.settings import wanted
from hooklane.receiver.inbox import Inbox

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler as its decorator named it."""

    source: str
    fn: Callable[..., Any]
    patterns: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def give_to(self, inbox: Inbox) -> None:
        """Register it on *inbox*, which has its source."""
        inbox.sources[self.source].on(*self.patterns, **self.options)(self.fn)


class Handlers:
    """What `source(name)` gives: the decorator `on`, as a `Source` of an inbox has it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on(self, *patterns: str, **options: Any) -> Callable[[Function], Function]:
        """Register the decorated function `(event, tx)` for the types that match; see `hooklane.Source.on`."""
        if any(callable(pattern) for pattern in patterns):
            raise ImproperlyConfigured(f'say for which types, as in @source("{self.name}").on("order.*")')

        def register(fn: Function) -> Function:
            from hooklane.django.inbox import give

            registered = Registered(self.name, fn, patterns, options)
            REGISTERED.append(registered)
            give(registered)
            return fn

        return register


REGISTERED: list[Registered] = []


def source(name: str) -> Handlers:
    """The source *name* of `HOOKLANE["SOURCES"]`, to register handlers on."""
    known = wanted().sources
    if name not in known:
        raise ImproperlyConfigured(f"HOOKLANE['SOURCES'] has no {name!r}; it has {sorted(known)}")
    return Handlers(name)
