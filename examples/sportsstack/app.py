"""Odds by Sports Stack: an event is a hint, the current state is fetched; 1.90 → 1.95 → 1.90 is not lost."""

import json
import os
from urllib.request import urlopen

from flask import Flask, Response, jsonify
from psycopg2.extensions import connection
from psycopg2.pool import ThreadedConnectionPool

import hooklane.flask
from hooklane import Event, Inbox, Retry

API = os.environ.get("SPORTSSTACK_API", "https://api.sportsstack.example/v1")
pool = ThreadedConnectionPool(1, 8, os.environ["DATABASE_URL"])  # yours: the inbox takes connections from it, too
with pool.getconn() as setup, setup.cursor() as cursor:
    cursor.execute("CREATE TABLE IF NOT EXISTS odds (id TEXT PRIMARY KEY, price REAL, fetches INTEGER NOT NULL)")
pool.putconn(setup)

inbox = Inbox(pool)
sportsstack = inbox.source("sportsstack", secrets=[os.environ["SPORTSSTACK_SECRET"]])


# The profile's own defaults: an event is a duplicate only while its hash is the entity's *current* one (the hash
# fingerprints a state, and states come back), and hints about one entity are coalesced into one fetch (refetch).
@sportsstack.on("*")
def fetch_odds(event: Event, tx: connection) -> None:
    try:
        with urlopen(f"{API}/odds/{event.key}", timeout=3) as answer:
            price = json.load(answer)["price"]
    except OSError as error:
        raise Retry(f"Sports Stack is away: {error}", after=2) from error
    with tx.cursor() as cursor:  # psycopg2's own connection, inside the transaction that marks the event as done
        cursor.execute(
            "INSERT INTO odds VALUES (%s, %s, 1)"
            " ON CONFLICT (id) DO UPDATE SET price = excluded.price, fetches = odds.fetches + 1",
            (event.key, price),
        )


app = Flask(__name__)
app.register_blueprint(hooklane.flask.blueprint(inbox), url_prefix="/webhooks")


@app.get("/odds")
def odds() -> Response:
    with pool.getconn() as conn, conn.cursor() as cursor:
        cursor.execute("SELECT id, price, fetches FROM odds")
        rows = cursor.fetchall()
    pool.putconn(conn)
    return jsonify({id: {"price": price, "fetches": fetches} for id, price, fetches in rows})
