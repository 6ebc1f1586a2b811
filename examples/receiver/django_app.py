"""A receiver in Django, in one file: store, answer 200, and apply once in a worker, on the ORM's own connection."""
# pyright: basic
# (Django ships no types.)

import os
import sys

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, JsonResponse
from django.urls import include, path

settings.configure(
    SECRET_KEY="only an example",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["hooklane.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("APP_DB", "app.db")}},
    HOOKLANE={"SOURCES": {"stripe": {"secrets": [os.environ["STRIPE_SECRET"]]}}, "WORKER": True},
)
django.setup()

from hooklane import Event  # noqa: E402 - Django must be set up first
from hooklane.django import source  # noqa: E402

with connection.cursor() as setup:
    setup.execute("CREATE TABLE IF NOT EXISTS payments (invoice TEXT, amount INTEGER)")
connection.close()  # a server that forks after loading this must not share it


# In a project of several files this stands in <app>/webhooks.py, and is found by itself.
@source("stripe").on("invoice.paid")
def paid(event: Event, tx: BaseDatabaseWrapper) -> None:
    invoice = event.payload["data"]["object"]
    with tx.cursor() as cursor:
        cursor.execute("INSERT INTO payments VALUES (%s, %s)", [invoice["id"], invoice["amount_paid"]])


def payments(request: HttpRequest) -> JsonResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT invoice, amount FROM payments")
        return JsonResponse(cursor.fetchall(), safe=False)


urlpatterns = [path("webhooks/", include("hooklane.django.urls")), path("payments", payments)]
app = get_wsgi_application()

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
