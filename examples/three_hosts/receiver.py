"""Writes down what arrives, in the order in which it is applied. GET /applied counts it, and checks the order."""

import os
from typing import Any

import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from hooklane import Event, Inbox, asgi

URL = os.environ["RECEIVER_DB"]
with psycopg.connect(URL, autocommit=True) as setup:
    setup.execute("CREATE TABLE IF NOT EXISTS applied (n BIGSERIAL PRIMARY KEY, key TEXT, step INTEGER)")

inbox = Inbox(URL)
shop = inbox.source("hooklane", secrets=[os.environ["HOOKLANE_SECRET"]])


@shop.on("order.*")
def apply(event: Event, tx: psycopg.Connection[Any]) -> None:
    tx.execute("INSERT INTO applied (key, step) VALUES (%s, %s)", (event.key, event.data["step"]))


def applied(request: Request) -> JSONResponse:
    orders: dict[str, list[int]] = {}
    with psycopg.connect(URL) as conn:
        for key, step in conn.execute("SELECT key, step FROM applied ORDER BY n"):
            orders.setdefault(key, []).append(step)
    wrong = [key for key, steps in orders.items() if steps != list(range(1, len(steps) + 1))]
    return JSONResponse({"events": sum(map(len, orders.values())), "orders": len(orders), "out_of_order": wrong})


app = Starlette(
    routes=[Mount("/webhooks", asgi.app(inbox)), Route("/applied", applied)],
    lifespan=lambda _: asgi.working(inbox),
)
