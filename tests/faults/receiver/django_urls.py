"""Where the Django application of app.py receives."""

from django.urls import include, path

urlpatterns = [path("webhooks/", include("hooklane.django.urls"))]
