"""Which inbox does this project have? The one that its settings describe, made on first use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from hooklane.errors import HooklaneError
from hooklane.receiver.inbox import Inbox
from hooklane.receiver.source import Source

KNOWN = {"INBOX", "MODE", "OUTBOX", "SOURCES", "WORKER"}


def settings_of_project() -> dict[str, Any]:
    """`settings.HOOKLANE`, with what is not in it at its default."""
    given = dict(getattr(settings, "HOOKLANE", {}))
    if unknown := sorted(set(given) - KNOWN):
        raise ImproperlyConfigured(f"HOOKLANE has unknown settings {unknown}; known are {sorted(KNOWN)}")
    return {"INBOX": "default", "MODE": "durable", "OUTBOX": None, "SOURCES": {}, "WORKER": False, **given}


@lru_cache(maxsize=1)
def inbox() -> Inbox:
    """The project's inbox, with a source for each entry of `HOOKLANE["SOURCES"]`."""
    wanted = settings_of_project()
    try:
        made = Inbox(wanted["INBOX"], mode=wanted["MODE"], outbox=wanted["OUTBOX"])
        for name, options in wanted["SOURCES"].items():
            made.source(name, **options)
    except HooklaneError as error:
        raise ImproperlyConfigured(f"HOOKLANE: {error}") from error
    return made


def source(name: str) -> Source:
    """The source *name* of the project's inbox, to register handlers on."""
    try:
        return inbox().sources[name]
    except KeyError:
        known = sorted(inbox().sources)
        raise ImproperlyConfigured(f"HOOKLANE['SOURCES'] has no {name!r}; it has {known}") from None
