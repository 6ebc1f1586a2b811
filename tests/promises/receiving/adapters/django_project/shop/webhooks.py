"""Found by itself: hooklane looks for this module in every app."""

from django.db import transaction

from hooklane.django import source
from shop.models import Notice, Payment

stripe = source("stripe")


@stripe.on("invoice.*")
def paid(event, tx):
    invoice = event.data["object"]["id"]
    Payment.objects.create(invoice=invoice)
    transaction.on_commit(lambda: Notice.objects.create(invoice=invoice))
    if event.type == "invoice.bad":
        raise RuntimeError("after the write")
