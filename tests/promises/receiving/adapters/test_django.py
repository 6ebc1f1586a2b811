"""A Django project on SQLite and on PostgreSQL: its own tests by Django's runner, and the project under gunicorn."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import ROOT

from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.testing.build_request import build_request

PROJECT = Path(__file__).parent / "django_project"
SOURCE = ROOT / "src"
SECRET = "whsec_of_the_shop"


@pytest.fixture(params=["sqlite", "postgres"])
def environment(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return environment_of(url)


@pytest.fixture
def on_postgres(postgres_url):
    return environment_of(postgres_url)


def environment_of(url):
    return {
        "SHOP_DB": url,
        "DJANGO_SETTINGS_MODULE": "project_settings",
        "PYTHONPATH": f"{SOURCE}{os.pathsep}{PROJECT}",
        "PYTHONWARNINGS": "error::RuntimeWarning",  # Django warns so of a database that is opened while apps load
    }


def manage(environment, *words):
    return subprocess.run(
        [sys.executable, "-m", "django", *words],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=scaled_s(90),
        check=False,
    )


class Site:
    def __init__(self, port):
        self.port = port

    def call(self, method, path, body=None, headers=()):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(20))
        try:
            conn.request(method, path, body, dict(headers))
            answer = conn.getresponse()
            return answer.status, answer.read()
        finally:
            conn.close()

    def deliver(self, event, chunked=False):
        return self.call("POST", "/webhooks/stripe", iter([event.body]) if chunked else event.body, event.headers)

    def state(self):
        return json.loads(self.call("GET", "/state")[1])


def serve(environment, tmp_path, *options):
    def spawn(port):
        words = ["gunicorn", "project_wsgi", "--workers", "2", "--threads", "4", "--bind", f"127.0.0.1:{port}"]
        return Child(
            [sys.executable, "-m", *words, *options], log=tmp_path / "gunicorn.log", env=environment, cwd=PROJECT
        )

    return start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/state"))


def paid(number, type="invoice.paid"):
    data = {"object": {"id": f"in_{number}"}}
    return build_request(find_profile("stripe"), [SECRET], type, data, id=f"evt_{number}", at=wall_now())


def test_what_is_promised_in_django_holds_by_its_own_test_runner(environment):
    ended = manage(environment, "test", "shop", "--noinput")

    assert ended.returncode == 0, ended.stderr
    assert int(re.search(r"Ran (\d+) tests", ended.stderr)[1]) >= 20


# On SQLite with children that load the project themselves: test_frameworks.
@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ("sqlite", ["--preload"]),
        pytest.param("postgres", ["--preload"], marks=pytest.mark.soak),
        ("postgres", []),
    ],
    indirect=["environment"],
)
def test_under_gunicorn_every_process_works_by_itself_and_an_event_counts_once(environment, tmp_path, options):
    assert manage(environment, "migrate", "--run-syncdb").returncode == 0
    child, port = serve({**environment, "SHOP_WORKER": "1"}, tmp_path, *options)
    with child:
        site = Site(port)
        events = [paid(number) for number in range(5)]
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(site.deliver, [event for event in events for _ in range(4)]))
        bad, _ = site.deliver(paid(9, "invoice.bad"))
        chunked, _ = site.deliver(paid(5), chunked=True)
        expected = [f"in_{number}" for number in range(6)]
        # The notices are written after the commit: they come last.
        until(lambda: len(site.state()["notices"]) >= 6, what="six notices")

        assert ({status for status, _ in answers}, bad, chunked) == ({200}, 200, 200)
        assert site.state() == {"payments": expected, "notices": expected}


def test_the_worker_command_works_until_it_is_told_to_stop(on_postgres, tmp_path):
    environment = on_postgres
    assert manage(environment, "migrate", "--run-syncdb").returncode == 0
    command = [sys.executable, "-m", "django", "hooklane", "worker", "--threads", "2"]
    child, port = serve(environment, tmp_path)
    with child, Child(command, log=tmp_path / "worker.log", env=environment, cwd=PROJECT) as worker:
        worker.wait_for_line("working")
        site = Site(port)
        site.deliver(paid(1))
        until(lambda: site.state()["notices"], what="a notice")
        os.kill(worker.pid, signal.SIGTERM)

        assert worker.wait() == 0
        assert site.state()["payments"] == ["in_1"]


def test_a_project_whose_settings_are_wrong_is_told_all_of_it_before_it_serves(tmp_path):
    ended = manage({**environment_of(f"sqlite:///{tmp_path}/shop.db"), "STRIPE_SECRET": ""}, "check")

    assert ended.returncode == 1
    assert "HOOKLANE: stripe: secret 1 of 1 is empty" in ended.stderr
