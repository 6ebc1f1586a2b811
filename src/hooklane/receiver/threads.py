"""What must a thread of ours do before it ends? Close what Django opened in it: nothing else would."""

from __future__ import annotations

import sys
from collections.abc import Callable

from hooklane.store.caller import django_settings


def closing(work: Callable[[], None]) -> Callable[[], None]:
    """*work*, for a thread that ends with it.

    Django keeps a connection for each thread and closes it after a request, which our threads never see. A connection
    that is left behind stays open until the collector comes by, and keeps a test database from being removed.
    """

    def run() -> None:
        try:
            work()
        finally:
            if django_settings.is_configured():
                sys.modules["django.db"].connections.close_all()

    return run
