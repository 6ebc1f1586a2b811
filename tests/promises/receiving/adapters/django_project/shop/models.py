from django.db import models


class Payment(models.Model):
    invoice = models.CharField(max_length=64)


class Notice(models.Model):
    """Written by `transaction.on_commit`."""

    invoice = models.CharField(max_length=64)
