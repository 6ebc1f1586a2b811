"""Is this a Django project? That `django.db` was imported proves nothing: a library may have done it."""

from __future__ import annotations

import os
import sys


def is_configured() -> bool:
    """Whether Django's settings are there or can be loaded, so that its connections can be asked for."""
    conf = sys.modules.get("django.conf")
    if conf is None or "django.db" not in sys.modules:
        return False
    return bool(conf.settings.configured or os.environ.get("DJANGO_SETTINGS_MODULE"))
