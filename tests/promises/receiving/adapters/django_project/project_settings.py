"""A Django project as people have them: CSRF protection and ATOMIC_REQUESTS on, one app with models and webhooks."""

import os
from urllib.parse import urlsplit

URL = os.environ["SHOP_DB"]
if URL.startswith("sqlite:///"):
    _path = URL.removeprefix("sqlite:///")
    # A file for tests too: threads that share SQLite's memory do not wait for each other, they fail.
    DEFAULT = {"ENGINE": "django.db.backends.sqlite3", "NAME": _path, "TEST": {"NAME": f"{_path}.test"}}
else:
    _at = urlsplit(URL)
    DEFAULT = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _at.path.lstrip("/"),
        "HOST": _at.hostname,
        "PORT": _at.port,
        "USER": _at.username,
        "PASSWORD": _at.password or "",
        "TEST": {"NAME": f"{_at.path.lstrip('/')}_test"},
    }
DATABASES = {
    "default": {**DEFAULT, "ATOMIC_REQUESTS": True},
    "archive": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "ATOMIC_REQUESTS": True},
}
SECRET_KEY = "only a test"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "project_urls"
INSTALLED_APPS = ["shop", "hooklane.django"]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]
HOOKLANE = {
    "SOURCES": {"stripe": {"secrets": [os.environ.get("STRIPE_SECRET", "whsec_of_the_shop")]}},
    "WORKER": int(os.environ.get("SHOP_WORKER", "0")),
}
