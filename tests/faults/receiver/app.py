"""The same receiver as an application of Flask, FastAPI and Django, that dies where it is told to, for a real server.

INBOX_URL and INBOX_MODE say where and how it receives. DIE_AT=after_claim@3,after_handler@5 are the points at which a
process kills itself, and the how manyth time it gets there; each point once, which a file in the folder DIED remembers.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.promises.receiving.kit import SECRET, own_source
from tests.stores.inbox.worlds import write_effect

from hooklane.receiver import Event, Inbox

URL, MODE = os.environ["INBOX_URL"], os.environ["INBOX_MODE"]
DEATHS = [(point, int(times)) for point, _, times in (word.partition("@") for word in os.environ["DIE_AT"].split(","))]
LEASE_MS = 500
_hits: Counter[str] = Counter()


def die(point: str) -> None:
    """Where the first of the deaths that nobody has died yet is due, this process ends."""
    _hits[point] += 1
    for wanted, times in DEATHS:
        died = Path(os.environ["DIED"]) / wanted
        if not died.exists():
            if point == wanted and _hits[point] >= times:
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return


def effect(event: Event, tx: Any) -> None:
    """One line for each time that it takes effect."""
    if URL.startswith(("redis:", "dynamodb:")):
        write_effect(URL, event, tx)
    elif hasattr(tx, "cursor") and hasattr(tx, "vendor"):  # Django's connection
        with tx.cursor() as cursor:
            cursor.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
    else:
        tx.execute(f"INSERT INTO effects (event_id) VALUES ({'?' if URL.startswith('sqlite') else '%s'})", (event.id,))


def made_inbox() -> Inbox:
    inbox = Inbox(URL, MODE, failpoint=die, lease_ms=LEASE_MS)  # type: ignore[arg-type]
    own_source(inbox, order="none").on("*", name="effect")(effect)
    return inbox


def flask_app() -> Any:
    from flask import Flask

    import hooklane.flask

    inbox, app = made_inbox(), Flask("receiver")
    app.register_blueprint(hooklane.flask.blueprint(inbox), url_prefix="/webhooks")
    return app


def fastapi_app() -> Any:
    from fastapi import FastAPI

    import hooklane.fastapi

    app = FastAPI()
    app.include_router(hooklane.fastapi.router(made_inbox()), prefix="/webhooks")
    return app


def django_app() -> Any:
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application

    place = urlsplit(URL)
    database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": URL.removeprefix("sqlite:///")}
    if place.scheme == "postgresql":
        database = {"ENGINE": "django.db.backends.postgresql", "NAME": place.path[1:], "USER": place.username}
        database |= {"HOST": place.hostname, "PORT": place.port}
    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        DATABASES={"default": database},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        HOOKLANE={
            "MODE": MODE,
            "OPTIONS": {"failpoint": die, "lease_ms": LEASE_MS},
            "SOURCES": {"hooklane": {"secrets": [SECRET], "order": "none"}},
            "WORKER": MODE == "durable",
        },
        INSTALLED_APPS=["hooklane.django"],
        ROOT_URLCONF="tests.faults.receiver.django_urls",
        SECRET_KEY="of a test",
    )
    app = get_wsgi_application()
    from hooklane.django import source

    source("hooklane").on("*", name="effect")(effect)
    return app
