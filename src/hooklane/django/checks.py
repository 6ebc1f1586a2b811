"""`manage.py check`: what would go wrong later is said before."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from hooklane.django.inbox import inbox


@register("hooklane")
def check_hooklane(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The settings make an inbox, and each source has a handler."""
    try:
        box = inbox()
    except ImproperlyConfigured as problem:
        return [Error(str(problem), id="hooklane.E001")]
    found: list[CheckMessage] = [
        Warning(
            f"source {name!r} has no handler: its events are stored as ignored",
            hint="register one in <app>/webhooks.py with @source(…).on(…)",
            id="hooklane.W001",
        )
        for name, source in box.sources.items()
        if not source.handlers
    ]
    if box.mode == "inline" and getattr(settings, "USE_TZ", True) is False:
        found.append(Warning("USE_TZ is off: event times are UTC", id="hooklane.W002"))
    return found
