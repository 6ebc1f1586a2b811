"""What a server such as gunicorn runs: `gunicorn ci.wsgi:app`."""
# pyright: basic
# (Django ships no types.)

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ci.settings")
app = get_wsgi_application()
