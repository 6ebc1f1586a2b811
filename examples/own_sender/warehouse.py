"""The warehouse: applies the shop's events in order, one at a time per order, and answers with events of its own."""

import os
import sqlite3

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from hooklane import Event, Inbox, Outbox, Retry, asgi

DB = os.environ.get("WAREHOUSE_DB", "warehouse.db")
URL = f"sqlite:///{DB}"
with sqlite3.connect(DB) as setup:
    setup.executescript(
        """
        CREATE TABLE IF NOT EXISTS applied (n INTEGER PRIMARY KEY, key TEXT, seq INTEGER, type TEXT);
        CREATE TABLE IF NOT EXISTS payments_service (one INTEGER PRIMARY KEY, is_up INTEGER);
        INSERT INTO payments_service VALUES (1, 1) ON CONFLICT DO NOTHING;
        """
    )

# An outbox in the same database: what a handler sends is published by the commit that marks its event as done.
inbox = Inbox(URL, outbox=Outbox(URL))
shop = inbox.source("hooklane", secrets=[os.environ["WAREHOUSE_SECRET"]])  # our own sender: order="sequence" by itself


@shop.on("order.*")
def apply(event: Event, tx: sqlite3.Connection) -> None:
    (is_up,) = tx.execute("SELECT is_up FROM payments_service").fetchone()
    if event.type == "order.paid" and not is_up:
        # The next event of this order waits behind this one, however often it is tried; other orders do not.
        raise Retry("the payments service is away", after=0.2)
    tx.execute("INSERT INTO applied (key, seq, type) VALUES (?, ?, ?)", (event.key, event.seq, event.type))
    event.send("stock.changed", {"because": event.id, "step": event.type}, key=event.key)


def applied(request: Request) -> JSONResponse:
    with sqlite3.connect(DB) as conn:
        rows = conn.execute("SELECT key, seq, type FROM applied ORDER BY n").fetchall()
    orders: dict[str, list[tuple[int, str]]] = {}
    for key, seq, type in rows:
        orders.setdefault(key, []).append((seq, type))
    return JSONResponse(orders)


def turn(request: Request) -> JSONResponse:
    with sqlite3.connect(DB, timeout=10) as conn:
        conn.execute("UPDATE payments_service SET is_up = ?", (int(request.path_params["state"] == "up"),))
    return JSONResponse({"payments": request.path_params["state"]})


app = Starlette(
    routes=[
        Mount("/webhooks", asgi.app(inbox)),
        Route("/applied", applied),
        Route("/payments/{state}", turn, methods=["POST"]),
    ],
    lifespan=lambda _: asgi.working(inbox),
)
