"""The same small receiver in FastAPI, Flask and Django: the programs under examples/, each under a real server."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import ROOT

from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.testing.build_request import build_request

SECRET = "whsec_" + "a secret of an example, long enough"
EXAMPLES = ROOT / "examples" / "receiver"
SERVERS = {
    "fastapi_app": ["uvicorn", "fastapi_app:app", "--host", "127.0.0.1", "--log-level", "warning", "--port"],
    "django_app": ["gunicorn", "django_app:app", "--workers", "2", "--threads", "4", "--bind", "127.0.0.1:{port}"],
    # The servers that come with the frameworks, as the README starts them: stricter than gunicorn about headers.
    "django_runserver": ["django_app.py", "runserver", "--noreload", "127.0.0.1:{port}"],
    "flask_run": ["flask", "--app", "flask_app", "run", "--port"],
    "flask_app": ["gunicorn", "flask_app:app", "--workers", "2", "--threads", "4", "--bind", "127.0.0.1:{port}"],
}


class App:
    """A running example."""

    def __init__(self, port: int) -> None:
        self.port = port

    def call(self, method, path, body=b"", headers=()):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(20))
        try:
            # A server that has refused a body by its length need not read it: the answer is there all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                conn.request(method, path, body, dict(headers))
            response = conn.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            conn.close()

    def deliver(self, request, body=None):
        return self.call("POST", "/webhooks/stripe", request.body if body is None else body, request.headers)

    def payments(self):
        return [tuple(row) for row in json.loads(self.call("GET", "/payments")[2])]


@pytest.fixture(params=list(SERVERS), scope="session")
def app(request, tmp_path_factory):
    """One running server of each kind for all tests here: each has events of its own."""
    tmp_path = tmp_path_factory.mktemp(request.param)

    def spawn(port):
        words = [word.format(port=port) for word in SERVERS[request.param]]
        if words[-1] == "--port":
            words.append(str(port))
        env = {"APP_DB": str(tmp_path / "app.db"), "STRIPE_SECRET": SECRET, "PYTHONPATH": ":".join(sys.path)}
        program = words if words[0].endswith(".py") else ["-m", *words]
        return Child([sys.executable, *program], log=tmp_path / "server.log", env=env, cwd=EXAMPLES)

    child, port = start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/payments"))
    with child:
        yield App(port)


def paid(name, amount=100):
    data = {"object": {"id": f"in_{name}", "amount_paid": amount}}
    return build_request(find_profile("stripe"), [SECRET], "invoice.paid", data, id=f"evt_{name}", at=wall_now())


def test_concurrent_copies_of_an_event_are_applied_once(app):
    before = app.payments()
    events = [paid(number) for number in range(5)]

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(app.deliver, [event for event in events for _ in range(4)]))
    until(lambda: len(app.payments()) >= len(before) + 5, what="five payments")

    assert {status for status, _, _ in answers} == {200}
    bodies = [json.loads(body)["status"] for _, _, body in answers]
    assert (bodies.count("ok"), bodies.count("already_processed")) == (5, 15)
    assert sorted(app.payments()) == sorted([*before, *((f"in_{number}", 100) for number in range(5))])


def test_what_was_changed_on_the_way_is_refused_without_a_reason(app):
    event = paid("changed")

    status, headers, body = app.deliver(event, event.body.replace(b"100", b"999"))

    assert status == 401
    assert json.loads(body) == {"error": "unauthorized"}
    assert {name.lower(): value for name, value in headers.items()}["hooklane-outcome"] == "rejected"
    assert "in_changed" not in dict(app.payments())


def test_a_slash_at_the_end_and_letters_that_are_encoded_are_the_same_address(app):
    event = paid("slash")

    answers = [app.call("POST", f"/webhooks/{name}", event.body, event.headers) for name in ("stripe/", "%73tripe")]

    told = [(status, json.loads(body)["status"]) for status, _, body in answers]
    assert told == [(200, "ok"), (200, "already_processed")]
    assert app.call("GET", "/webhooks/stripe/")[0] == 405


def test_an_unknown_source_and_a_wrong_method_are_told_apart(app):
    assert app.call("POST", "/webhooks/nobody", b"{}")[0] == 404
    assert app.call("GET", "/webhooks/stripe")[0] == 405


def test_a_body_that_is_too_large_is_refused(app):
    assert app.call("POST", "/webhooks/stripe", b" " * 1_100_000)[0] == 413


def test_form_bytes_reach_the_verifier_untouched(app):
    """A framework that parses forms would have emptied the body before the signature was checked."""
    event = paid("form")
    form = ("content-type", "application/x-www-form-urlencoded")
    headers = [form if name.lower() == "content-type" else (name, value) for name, value in event.headers]

    status, _, _ = app.call("POST", "/webhooks/stripe", event.body, headers)

    assert status == 200
    until(lambda: "in_form" in dict(app.payments()), what="its payment")


CUT_OFF = [b"", b'{"id": "evt_1", "type": "charge.succeeded"']
BROKEN = {
    "cut off": b"5\r\nhel",
    "no chunk": b"zz\r\nhello\r\n0\r\n\r\n",
    "too long": b"5\r\nhello, world\r\n0\r\n\r\n",
    "no end": b"5\r\nhello\r\n",
}


@pytest.mark.parametrize("app", ["flask_app", "django_app"], indirect=True)
def test_a_body_that_breaks_off_is_the_senders_fault_and_not_an_error_of_ours(app):
    before = app.payments()
    for name, chunks in BROKEN.items():
        with socket.create_connection(("127.0.0.1", app.port), 20) as sock:
            sock.sendall(b"POST /webhooks/stripe HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sock.recv(65_536), b""))

        assert answer.split(b" ", 2)[1:2] in ([], [b"400"]), (name, answer)
        if name in ("no chunk", "too long"):
            assert b"hooklane-outcome: rejected" in answer.lower(), (name, answer)
    assert app.payments() == before


@pytest.mark.parametrize("app", ["flask_app", "django_app", "flask_run", "django_runserver"], indirect=True)
def test_a_body_that_is_shorter_than_its_length_is_not_taken_for_a_whole_one(app):
    before = app.payments()
    for body in CUT_OFF:
        with socket.create_connection(("127.0.0.1", app.port), 20) as sock:
            sock.sendall(b"POST /webhooks/stripe HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n" + body)
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sock.recv(65_536), b""))

        assert answer.split(b" ", 2)[1:2] in ([], [b"400"]), answer
    assert app.payments() == before
