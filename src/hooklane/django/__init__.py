"""The receiver in Django.

```python
INSTALLED_APPS = [..., "hooklane.django"]
HOOKLANE = {"SOURCES": {"stripe": {"secrets": [env("STRIPE_SECRET")]}}}  # INBOX: the alias "default" unless given

path("webhooks/", include("hooklane.django.urls"))  # urls.py


@source("stripe").on("invoice.paid")  # <app>/webhooks.py, found by itself
def paid(event, tx): ...
```
`tx` is Django's connection inside `transaction.atomic()`, so the ORM and `on_commit` work as everywhere.
"""

from __future__ import annotations

from hooklane.errors import MissingExtra

try:
    import django  # noqa: F401 - a clear line instead of a puzzling one
except ImportError as error:
    raise MissingExtra("django", "django") from error

from hooklane.django.dashboard import dashboard
from hooklane.django.handlers import source
from hooklane.django.inbox import inbox

__all__ = ["dashboard", "inbox", "source"]
