"""Django's commands for this project."""
# pyright: basic
# (Django ships no types.)

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ci.settings")
execute_from_command_line(sys.argv)
