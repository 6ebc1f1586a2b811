"""Settings: what hooklane needs is INSTALLED_APPS and HOOKLANE."""

import os

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "only an example")
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "ci.urls"
WSGI_APPLICATION = "ci.wsgi.app"
INSTALLED_APPS = ["ci", "hooklane.django"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("APP_DB", "app.db")}}
HOOKLANE = {
    "SOURCES": {"github": {"secrets": [os.environ.get("GITHUB_SECRET", "only an example, sixteen or more")]}},
    "WORKER": True,  # a thread of each server process runs the handlers
}
