"""A receiver whose inbox is opened, and used, before gunicorn forks; run by test_forks."""

import os

from flask import Flask, jsonify
from tests.promises.receiving.kit import own_source, signed

import hooklane.flask
from hooklane import Inbox

inbox = Inbox(os.environ["APP_DB"])


@own_source(inbox, order="none").on("*")
def effect(event, tx):
    mark = "?" if os.environ["APP_DB"].startswith("sqlite") else "%s"
    tx.execute(f"INSERT INTO effects (event_id, pid) VALUES ({mark}, {mark})", (event.id, os.getpid()))


if os.environ.get("APP_WARM"):  # connections, threads and all: none of it may be shared with the children
    inbox.receive(signed("evt_parent"))
    inbox.run_once()
    inbox.start_worker()

app = Flask(__name__)
app.register_blueprint(hooklane.flask.blueprint(inbox), url_prefix="/webhooks")


@app.get("/rows")
def rows():
    return jsonify([str(row.overall) for row in inbox.rows(limit=1000)])
