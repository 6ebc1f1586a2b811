"""A receiver in FastAPI: store, answer 200, and apply once in a worker."""

import os
import sqlite3

from fastapi import FastAPI

import hooklane.fastapi
from hooklane import Event, Inbox

DB = os.environ.get("APP_DB", "app.db")
with sqlite3.connect(DB) as setup:
    setup.execute("CREATE TABLE IF NOT EXISTS payments (invoice TEXT, amount INTEGER)")

inbox = Inbox(f"sqlite:///{DB}")
stripe = inbox.source("stripe", secrets=[os.environ["STRIPE_SECRET"]])


@stripe.on("invoice.paid")
def paid(event: Event, tx: sqlite3.Connection) -> None:
    invoice = event.payload["data"]["object"]
    tx.execute("INSERT INTO payments VALUES (?, ?)", (invoice["id"], invoice["amount_paid"]))


app = FastAPI()
app.include_router(hooklane.fastapi.router(inbox), prefix="/webhooks")


@app.get("/payments")
def payments() -> list[tuple[str, int]]:
    with sqlite3.connect(DB) as conn:
        return conn.execute("SELECT invoice, amount FROM payments").fetchall()
