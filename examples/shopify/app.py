"""Orders of Shopify in Flask: copies are dropped, and an older state never overwrites a newer one."""

import os
import sqlite3
from contextlib import closing

from flask import Flask, Response, jsonify

import hooklane.flask
from hooklane import Event, Inbox, latest

DB = os.environ.get("APP_DB", "orders.db")
with closing(sqlite3.connect(DB)) as setup, setup:
    setup.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, status TEXT, events INTEGER NOT NULL)")

inbox = Inbox(f"sqlite:///{DB}")
shopify = inbox.source("shopify", secrets=[os.environ["SHOPIFY_SECRET"]])


@shopify.on("orders/*", order=latest())  # by `updated_at`, for each order
def sync(event: Event, tx: sqlite3.Connection) -> None:
    order = event.data
    tx.execute(
        "INSERT INTO orders VALUES (?, ?, 1)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, events = events + 1",
        (order["id"], order["financial_status"]),
    )


app = Flask(__name__)
app.register_blueprint(hooklane.flask.blueprint(inbox), url_prefix="/webhooks")


@app.get("/orders")
def orders() -> Response:
    with closing(sqlite3.connect(DB)) as conn:
        rows = conn.execute("SELECT id, status, events FROM orders").fetchall()
    return jsonify({id: {"status": status, "events": events} for id, status, events in rows})
