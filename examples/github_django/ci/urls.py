"""POST /webhooks/github, GET /builds."""
# pyright: basic
# (Django ships no types.)

from django.http import HttpRequest, JsonResponse
from django.urls import include, path

from .models import Build


def builds(request: HttpRequest) -> JsonResponse:
    return JsonResponse(list(Build.objects.values_list("repository", "commit")), safe=False)


urlpatterns = [path("webhooks/", include("hooklane.django.urls")), path("builds", builds)]
