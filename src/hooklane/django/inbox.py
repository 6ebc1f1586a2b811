"""Which inbox does this project have? The one that its settings describe, made on first use in each process."""

from __future__ import annotations

import threading
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from hooklane.django.handlers import REGISTERED, Registered
from hooklane.django.settings import Wanted, sink_of, wanted
from hooklane.errors import HooklaneError, StoreError
from hooklane.receiver.inbox import Inbox

_lock = threading.RLock()
_made: Inbox | None = None


def inbox() -> Inbox:
    """The project's inbox, with a source for each entry of `HOOKLANE["SOURCES"]` and the handlers of all apps."""
    global _made
    if _made is None:
        with _lock:  # the first requests of a process may come together
            if _made is None:
                _made = build(wanted())
    return _made


def build(settings: Wanted, *, where: Any = None) -> Inbox:
    """An inbox as *settings* want it; at *where* instead, to find out what is wrong without opening a database."""
    options = dict(settings.options)
    sink = sink_of(settings.emit)
    if sink is not None:
        options["emit"] = sink
    try:
        if where is None and settings.outbox is not None:
            options["outbox"] = _outbox(settings.outbox)
        made = Inbox(settings.inbox if where is None else where, settings.mode, **options)  # type: ignore[arg-type]
        for name, source in settings.sources.items():
            _named(lambda: made.source(name, **source), name)  # noqa: B023 - called at once
        for registered in REGISTERED:
            if registered.source in made.sources:  # a test may have taken a source away
                _named(lambda: registered.give_to(made), registered.source)  # noqa: B023 - called at once
    except StoreError:
        raise  # the settings are right and the database is away
    except (HooklaneError, TypeError) as error:
        raise ImproperlyConfigured(f"HOOKLANE: {error}") from error
    return made


def give(registered: Registered) -> None:
    """A handler that was registered after the inbox was made."""
    with _lock:
        if _made is not None and registered.source in _made.sources:
            registered.give_to(_made)


def forget(*, setting: str = "HOOKLANE", **kwargs: Any) -> None:
    """Settings changed (in a test, as a rule): the next call gets another inbox."""
    global _made
    if setting not in ("HOOKLANE", "DATABASES"):
        return
    with _lock:
        old, _made = _made, None
    if old is not None:
        old.close()


def _outbox(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    from hooklane.sender.outbox import Outbox

    return Outbox(given)


def _named(call: Any, name: str) -> None:
    try:
        call()
    except (HooklaneError, TypeError, ValueError) as error:
        text = str(error)
        raise ImproperlyConfigured(f"HOOKLANE: {text if text.startswith(name) else f'{name}: {text}'}") from error
