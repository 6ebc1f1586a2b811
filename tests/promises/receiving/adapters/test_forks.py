"""Servers that fork: what was opened before the fork is not shared, and every child works by itself."""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.promises.receiving.kit import signed
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import ROOT


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """A URL, and a function that asks it."""
    if request.param == "sqlite":
        path = tmp_path / "app.db"

        def ask(sql):
            conn = sqlite3.connect(path, timeout=10)
            try:
                with conn:
                    return conn.execute(sql).fetchall()
            finally:
                conn.close()

        url = f"sqlite:///{path}"
    else:
        url = request.getfixturevalue("postgres_url")

        def ask(sql):
            with psycopg.connect(url) as conn:
                answer = conn.execute(sql)
                return answer.fetchall() if answer.description else []

    ask("CREATE TABLE effects (event_id text, pid integer)")
    return url, ask


def call(port, method, path, body=None, headers=()):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(20))
    try:
        conn.request(method, path, body, dict(headers))
        answer = conn.getresponse()
        return answer.status, answer.read()
    finally:
        conn.close()


def test_children_of_a_preloaded_server_share_nothing_and_an_event_counts_once(database, tmp_path):
    url, ask = database

    def spawn(port):
        words = ["tests.promises.receiving.adapters.preloaded:app", "--preload", "--workers", "3", "--threads", "3"]
        env = {"APP_DB": url, "APP_WARM": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "gunicorn", *words, "--bind", f"127.0.0.1:{port}"]
        return Child(command, log=tmp_path / "gunicorn.log", env=env, cwd=ROOT)

    child, port = start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/rows"))
    with child:
        events = [signed(f"evt_{number}") for number in range(12)]

        def deliver(event):
            return call(port, "POST", "/webhooks/hooklane", event.body, event.headers)[0]

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(deliver, [event for event in events for _ in range(3)]))
        until(lambda: json.loads(call(port, "GET", "/rows")[1]) == ["completed"] * 13, what="thirteen done")

        assert set(answers) == {200}
        effects = ask("SELECT event_id, pid FROM effects")
        assert sorted(id for id, _ in effects) == sorted(["evt_parent", *(f"evt_{number}" for number in range(12))])
