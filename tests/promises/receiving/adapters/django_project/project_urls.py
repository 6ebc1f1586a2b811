from django.http import JsonResponse
from django.urls import include, path
from shop.models import Notice, Payment


def state(request):
    return JsonResponse(
        {
            "payments": sorted(Payment.objects.values_list("invoice", flat=True)),
            "notices": sorted(Notice.objects.values_list("invoice", flat=True)),
        }
    )


urlpatterns = [path("webhooks/", include("hooklane.django.urls")), path("state", state)]
