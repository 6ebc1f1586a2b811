"""Slack's events: the handshake is answered by the profile, each mention is noted once."""

import os
import sqlite3
from contextlib import closing

from fastapi import FastAPI

import hooklane.fastapi
from hooklane import Event, Inbox

DB = os.environ.get("APP_DB", "mentions.db")
with closing(sqlite3.connect(DB)) as setup, setup:
    setup.execute("CREATE TABLE IF NOT EXISTS mentions (team TEXT, channel TEXT, text TEXT)")

inbox = Inbox(f"sqlite:///{DB}")
slack = inbox.source("slack", secrets=[os.environ["SLACK_SIGNING_SECRET"]])


@slack.on("app_mention")
def note(event: Event, tx: sqlite3.Connection) -> None:
    said = event.data
    tx.execute("INSERT INTO mentions VALUES (?, ?, ?)", (event.account, said["channel"], said["text"]))


app = FastAPI()
app.include_router(hooklane.fastapi.router(inbox), prefix="/webhooks")


@app.get("/mentions")
def mentions() -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(DB)) as conn:
        return conn.execute("SELECT team, channel, text FROM mentions").fetchall()
