"""`path("webhooks/", include("hooklane.django.urls"))`: one address per source."""

from __future__ import annotations

from django.urls import path

from hooklane.django.views import receive_webhook

app_name = "hooklane"
urlpatterns = [path("<str:source>", receive_webhook, name="receive")]
urlpatterns += [path("<str:source>/", receive_webhook)]
