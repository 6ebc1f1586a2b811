"""One build for each commit that was pushed."""
# pyright: basic
# (Django ships no types.)

from django.db import models


class Build(models.Model):
    objects = models.Manager()  # Django's own; written down for type checkers
    repository = models.CharField(max_length=200)
    commit = models.CharField(max_length=40)
    delivery = models.CharField(max_length=100, unique=True)

    class Meta:
        app_label = "ci"
