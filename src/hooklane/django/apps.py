"""The Django app: finds each app's `webhooks.py`, checks the settings, and makes its tables with `migrate`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.module_loading import autodiscover_modules


class HooklaneConfig(AppConfig):
    name = "hooklane.django"
    label = "hooklane"
    verbose_name = "hooklane"

    def ready(self) -> None:
        from hooklane.django import checks  # noqa: F401 - registers itself
        from hooklane.django.inbox import forget

        setting_changed.connect(forget, dispatch_uid="hooklane")
        # Of any app: Django sends none for an app without models.
        pre_migrate.connect(_begin, dispatch_uid="hooklane")
        post_migrate.connect(_make_tables, dispatch_uid="hooklane")
        autodiscover_modules("webhooks")


def _begin(**kwargs: Any) -> None:
    """Whatever was made before may be on another database: a test's is not the one of the settings."""
    from hooklane.django.inbox import forget

    forget()


def _make_tables(using: str, **kwargs: Any) -> None:
    """With `migrate`, and so in a test database too, before any test's own transaction; else on first use."""
    from hooklane.django.inbox import inbox
    from hooklane.django.settings import wanted

    if using == wanted().alias:
        inbox()
