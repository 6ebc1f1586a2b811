"""hooklane's dashboard inside a Django project, for its staff: python django_app.py runserver"""
# pyright: basic
# (Django ships no types.)

import os
import sys
from typing import Any

from django.conf import settings

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        SECRET_KEY=os.environ.get("APP_SECRET", "only for trying this out"),
        USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["APP_DB"]}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
        MIDDLEWARE=[
            "django.middleware.common.CommonMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    )
    import django

    django.setup()

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.management import call_command, execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from hooklane.django import dashboard


def sign_in(request: HttpRequest) -> HttpResponse:
    """In a project of yours this is Django's own login page."""
    if str(request.method) != "POST":
        return JsonResponse({"please": "sign in"})
    user, _ = User.objects.get_or_create(username="ops", is_staff=True)
    login(request, user)
    return HttpResponseRedirect("/hooklane/", status=303)


def sign_in_customer(request: Any, customer: str) -> HttpResponse:
    request.session["customer"] = customer
    return HttpResponseRedirect("/webhooks/", status=303)


def customer_of(request: Any) -> str | None:
    """Which tenant of hooklane this customer is, as your project knows it."""
    customer: str | None = request.session.get("customer")
    return customer


urlpatterns = [
    path("login", csrf_exempt(sign_in)),
    path("login/<customer>", csrf_exempt(sign_in_customer)),
    path(
        "hooklane/",
        include(
            dashboard(
                os.environ["HOOKLANE_DB"],
                login_url="/login",
                playground=True,
                behind_proxy=True,
                egress_allow=["127.0.0.0/8"],
            )
        ),
    ),
    path(
        "webhooks/",
        include(
            dashboard(
                os.environ["HOOKLANE_DB"], may=customer_of, tenant=customer_of, login_url="/login", behind_proxy=True
            ),
            namespace="customers",
        ),
    ),
]
call_command("migrate", verbosity=0)
app = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
