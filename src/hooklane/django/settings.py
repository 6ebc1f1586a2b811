"""What does the project want? `settings.HOOKLANE`, checked: everything that is wrong is said at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from hooklane.telemetry import both


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The settings, each at its default unless given."""

    inbox: Any = "default"
    """An alias of DATABASES (then the ORM's writes are part of the commit), or anything that `Inbox` takes."""
    mode: str = "durable"
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, what `Inbox.source` takes: secrets, profile, order …"""
    outbox: Any = None
    """A URL of the same database, or an `Outbox`, for `event.send`."""
    worker: bool | int = False
    """Threads in each server process that run the handlers; or run `manage.py hooklane worker`."""
    emit: Any = None
    """What is told what happens: a function, its dotted path, or several in a list."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `Inbox`."""

    @property
    def alias(self) -> str | None:
        """The alias of DATABASES, where the inbox is on one."""
        if not isinstance(self.inbox, str):
            return None
        alias = self.inbox.removeprefix("django:")
        return alias if alias in settings.DATABASES else None


def wanted() -> Wanted:
    """The project's settings; `ImproperlyConfigured` with all that is wrong about their shape."""
    given = getattr(settings, "HOOKLANE", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"HOOKLANE must be a dict, got a {type(given).__name__}")
    known = sorted(name.upper() for name in Wanted.__dataclass_fields__)
    problems = [f"{name!r} is not a setting; known are {', '.join(known)}" for name in given if name not in known]
    sources = given.get("SOURCES", {})
    if not isinstance(sources, Mapping) or not all(isinstance(each, Mapping) for each in sources.values()):
        problems.append('SOURCES must be a dict such as {"stripe": {"secrets": ["whsec_…"]}}')
    worker = given.get("WORKER", False)
    if not isinstance(worker, int) or worker < 0:
        problems.append(f"WORKER must be True, False or a number of threads, got {worker!r}")
    inbox = given.get("INBOX", "default")
    if isinstance(inbox, str) and ":" not in inbox and inbox not in settings.DATABASES:
        problems.append(f"INBOX {inbox!r} is no alias of DATABASES; there are {', '.join(settings.DATABASES)}")
    if problems:
        raise ImproperlyConfigured("HOOKLANE: " + "; ".join(problems))
    return Wanted(**{name.lower(): value for name, value in given.items()})


def sink_of(emit: Any) -> Any:
    """One function out of what EMIT may be."""
    if emit is None:
        return None
    return both(*(_sink(each) for each in (emit if isinstance(emit, (list, tuple)) else [emit])))


def _sink(emit: Any) -> Any:
    found = import_string(emit) if isinstance(emit, str) else emit
    made = found() if isinstance(found, type) else found
    if not callable(made):
        raise ImproperlyConfigured(f"HOOKLANE: EMIT must be a function of one event, got {emit!r}")
    return made
