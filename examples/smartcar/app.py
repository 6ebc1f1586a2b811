"""Vehicles by Smartcar: signals arrive late, twice and out of order, and the newest value of each one stays."""

import json
import os
import sqlite3

from fastapi import FastAPI

import hooklane.fastapi
from hooklane import Event, Inbox, latest

DB = os.environ.get("APP_DB", "vehicles.db")
with sqlite3.connect(DB) as setup:
    setup.executescript(
        """
        CREATE TABLE IF NOT EXISTS signals (
            vehicle_id TEXT, code TEXT, value TEXT, at INTEGER NOT NULL, PRIMARY KEY (vehicle_id, code));
        CREATE TABLE IF NOT EXISTS errors (
            vehicle_id TEXT, code TEXT, state TEXT, description TEXT, at INTEGER NOT NULL,
            PRIMARY KEY (vehicle_id, code));
        """
    )

inbox = Inbox(f"sqlite:///{DB}")
smartcar = inbox.source("smartcar", secrets=[os.environ["SMARTCAR_TOKEN"]])  # the application management token


@smartcar.on("VEHICLE_STATE")
def store_signals(event: Event, tx: sqlite3.Connection) -> None:
    """Each signal by the time at which the car measured it. Not by meta.deliveredAt: that is the time of the attempt,
    and a late retry of old data has a newer one than what followed it."""
    for signal in event.data["signals"]:
        meta = signal["meta"]
        latest.apply(
            tx,
            "signals",
            key={"vehicle_id": event.key, "code": signal["code"]},
            at=meta.get("oemUpdatedAt") or meta["fetchedAt"],
            set={"value": json.dumps(signal["body"])},
            future="skip",  # one car's wrong clock must not freeze a field, nor keep its other signals out
        )


@smartcar.on("VEHICLE_ERROR")
def track_error(event: Event, tx: sqlite3.Connection) -> None:
    """Open or resolved, per vehicle and kind of error: whichever was received last. Copies do not count again."""
    for error in event.data["errors"]:
        latest.apply(
            tx,
            "errors",
            key={"vehicle_id": event.key, "code": error["code"]},
            at=event.received_at,
            set={"state": error.get("state", "ERROR"), "description": error.get("description", "")},
        )


app = FastAPI()
app.include_router(hooklane.fastapi.router(inbox), prefix="/webhooks")


@app.get("/vehicles/{vehicle_id}")
def vehicle(vehicle_id: str) -> dict[str, dict[str, object]]:
    with sqlite3.connect(DB) as conn:
        signals = conn.execute("SELECT code, value FROM signals WHERE vehicle_id = ?", (vehicle_id,)).fetchall()
        errors = conn.execute("SELECT code, state FROM errors WHERE vehicle_id = ?", (vehicle_id,)).fetchall()
    return {"signals": {code: json.loads(value) for code, value in signals}, "errors": dict(errors)}
