"""A receiver as an application would write it, behind a door that a test can jam: shop.py PORT FOLDER SECRET.

The door reads FOLDER/door.json before each request: `hang` maps "key #seq" to how many requests hang, `refuse` lists
keys that get 422. Each arrival is a line of FOLDER/arrivals.jsonl; a hanging one has no status.
"""

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path

import uvicorn

from hooklane import asgi
from hooklane.receiver.event import Event
from hooklane.receiver.inbox import Inbox

PORT, FOLDER, SECRET = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
HANG_S = 1.5

inbox = Inbox(f"sqlite:///{FOLDER}/shop.db", mode="inline")
orders = inbox.source("orders", secrets=[SECRET], profile="hooklane")
hung: dict[str, int] = {}


@orders.on("*")
def apply(event: Event, tx: sqlite3.Connection) -> None:
    tx.execute(
        "CREATE TABLE IF NOT EXISTS effect (n INTEGER PRIMARY KEY, event_id TEXT, type TEXT, key TEXT, seq INTEGER)"
    )
    tx.execute(
        "INSERT INTO effect (event_id, type, key, seq) VALUES (?, ?, ?, ?)",
        (event.id, event.type, event.key, event.seq),
    )


receive = asgi.app(inbox)


async def door(scope, receive_, send):
    if scope["type"] != "http":
        await receive(scope, receive_, send)
        return
    arrived_at = time.time()
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    place = f"{headers.get('x-key')} #{headers.get('x-seq')}"
    rules = json.loads((FOLDER / "door.json").read_text())
    status = 0

    async def watched(message):
        nonlocal status
        status = message.get("status", status)
        await send(message)

    if hung.get(place, 0) < rules["hang"].get(place, 0):
        hung[place] = hung.get(place, 0) + 1
        note(place, headers, arrived_at, None)
        await asyncio.sleep(HANG_S)
        return
    if headers.get("x-key") in rules["refuse"]:
        await watched({"type": "http.response.start", "status": 422, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
    else:
        await receive(scope, receive_, watched)
    note(place, headers, arrived_at, status)


def note(place, headers, arrived_at, status):
    line = {"place": place, "attempt": int(headers.get("x-attempt", 0)), "at": arrived_at, "status": status}
    with (FOLDER / "arrivals.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")


uvicorn.run(door, host="127.0.0.1", port=PORT, log_level="warning", lifespan="on")
