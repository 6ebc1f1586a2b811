"""`manage.py check`: what would go wrong later is said before, and no database is opened for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from hooklane.django.handlers import REGISTERED
from hooklane.django.inbox import build
from hooklane.django.settings import Wanted, wanted
from hooklane.receiver.advice import Advice, advise
from hooklane.receiver.inbox import Inbox

_IDS = {
    Advice.NO_HANDLER: "hooklane.W001",
    Advice.LOSES_EVENTS: "hooklane.W002",
    Advice.BAD_SECRET: "hooklane.W003",
    Advice.UNSAFE: "hooklane.W004",
    Advice.NO_CERTIFICATES: "hooklane.W005",
}
_VENDORS = ("sqlite", "postgresql")


@register("hooklane")
def check_hooklane(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The settings make an inbox, each source has a handler, and nothing is lost by its mode."""
    try:
        settings_ = wanted()
        box = build(settings_, where="memory://")
    except ImproperlyConfigured as problem:
        return [Error(str(problem), id="hooklane.E001")]
    return [*_database(settings_), *_strays(box), *_kinds(settings_, box), *_advice(box)]


def _database(wanted: Wanted) -> Iterator[CheckMessage]:
    alias = wanted.alias
    if alias is not None and connections[alias].vendor not in _VENDORS:
        yield Error(
            f"INBOX {alias!r} is on {connections[alias].vendor}: an inbox is kept in SQLite or PostgreSQL",
            hint="add a database of one of these kinds to DATABASES and name its alias",
            id="hooklane.E002",
        )


def _strays(box: Inbox) -> Iterator[CheckMessage]:
    for name in sorted({each.source for each in REGISTERED} - set(box.sources)):
        yield Error(f"there are handlers for {name!r}, which HOOKLANE['SOURCES'] does not have", id="hooklane.E003")


def _kinds(wanted: Wanted, box: Inbox) -> Iterator[CheckMessage]:
    if wanted.alias is None:
        return
    for source in box.sources.values():
        for handler in source.handlers.values():
            if handler.is_async:
                text = f"the handler {handler.name!r} of {source.name!r} is async, and the ORM's transactions are not"
                yield Error(text, hint="make it sync", id="hooklane.E004")


def _advice(box: Inbox) -> Iterator[CheckMessage]:
    for advice in advise(box):
        yield Warning(advice.text, hint=advice.hint, id=_IDS[advice.kind])
