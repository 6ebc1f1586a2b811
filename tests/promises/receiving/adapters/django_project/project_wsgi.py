import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project_settings")
application = get_wsgi_application()

# Loading the project opens no database: with gunicorn --preload a connection would be shared by all its children.
from django.db import connections  # noqa: E402

opened = [alias for alias in connections if connections[alias].connection is not None]
if opened or sys.modules["hooklane.django.inbox"]._made is not None:
    sys.exit(f"opened while loading: {opened}")
