"""Handlers: hooklane finds this module in every installed app."""
# pyright: basic
# (Django ships no types.)

from typing import Any

from hooklane import Event
from hooklane.django import source

from .models import Build


@source("github").on("push")
def build(event: Event, tx: Any) -> None:
    """The ORM writes on the connection in which the event is marked as done: both are stored, or neither is."""
    repository = event.data["repository"]["full_name"]
    Build.objects.create(repository=repository, commit=event.data["after"], delivery=event.id)
