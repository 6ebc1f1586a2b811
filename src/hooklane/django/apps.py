"""The Django app: finds each app's `webhooks.py`, and checks the settings."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class HooklaneConfig(AppConfig):
    name = "hooklane.django"
    label = "hooklane"
    verbose_name = "hooklane"

    def ready(self) -> None:
        from hooklane.django import checks  # noqa: F401 - registers itself

        autodiscover_modules("webhooks")
