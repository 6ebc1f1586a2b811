"""One build for each commit that was pushed."""
# pyright: basic
# (Django ships no types.)

from django.db import models


class Build(models.Model):
    repository = models.CharField(max_length=200)
    commit = models.CharField(max_length=40)
    delivery = models.CharField(max_length=100, unique=True)
    objects = models.Manager()

    class Meta:
        app_label = "ci"
