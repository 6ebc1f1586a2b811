"""Stripe webhooks in AWS Lambda, with the inbox and the application's own data in DynamoDB.

The payment and the note that its event was applied are one transaction: a duplicate, a retry after a timeout and a
crash in the middle all end in one payment. Nothing can run behind an answer, for a function is frozen: `inline`.
"""

from __future__ import annotations

import os
from decimal import Decimal

from hooklane import DynamoTx, Event, Inbox
from hooklane.aws_lambda import handler as lambda_handler

PAYMENTS = os.environ.get("PAYMENTS_TABLE", "payments")

inbox = Inbox(os.environ.get("INBOX_URL", "dynamodb://inbox"), mode="inline")
stripe = inbox.source("stripe", secrets=os.environ["STRIPE_SECRETS"].split(","))


@stripe.on("invoice.paid", order="none")
def record_payment(event: Event, tx: DynamoTx) -> None:
    """One payment for each event, and the customer's balance with it."""
    invoice = event.data["object"]
    tx.put(PAYMENTS, {"id": f"payment#{event.id}", "customer": invoice["customer"], "cents": invoice["amount_paid"]})
    tx.update(
        PAYMENTS,
        {"id": f"balance#{invoice['customer']}"},
        "ADD cents :paid",
        values={"paid": Decimal(invoice["amount_paid"])},
    )


handler = lambda_handler(inbox)


def worker(event: object, context: object) -> dict[str, int]:
    """A second function, called every minute by a schedule: what a crash left behind is done."""
    return {"handled": inbox.run_once(100)}
