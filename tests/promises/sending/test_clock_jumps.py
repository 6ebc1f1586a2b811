"""F58: a wall clock that is set, back or forth, costs a few seconds: nothing waits for it, and nothing bursts."""

import json
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock_shim import ClockShim
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Answer, Sink

from hooklane.core.worker.ownership import RENEWALS
from hooklane.core.worker.worker import LEASE_MS

DAY_S = 86_400
TEN_YEARS_S = 3_653 * DAY_S
WITHIN_S = 60
RENEWAL_S = 1.5 * LEASE_MS / RENEWALS / 1_000


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=scaled_s(WITHIN_S)) as answer:
        return json.loads(answer.read())


class Site:
    """A server whose clock can be set, with an endpoint that fails twice and then takes the event."""

    def __init__(self, start: Callable[..., Child], folder: Path, clock: ClockShim) -> None:
        self._start = start
        self._port = free_port()
        self._folder = folder
        self.clock = clock
        self.url = f"http://127.0.0.1:{self._port}"
        self.server = self.started()

    def started(self) -> Child:
        options = ("--db", f"sqlite:///{self._folder}/h.db", "--egress-allow", "127.0.0.0/8")
        child = self._start("serve", "--no-auth", "--port", str(self._port), *options, env=self.clock.env)
        child.wait_for_http(f"{self.url}/readyz", status=200, within_s=WITHIN_S)
        return child

    def restart(self, how: signal.Signals) -> None:
        self.server.send(how)
        self.server.wait(within_s=WITHIN_S)
        self.server = self.started()


@pytest.fixture
def site(start_hooklane: Callable[..., Child], tmp_path: Path) -> Site:
    return Site(start_hooklane, tmp_path, ClockShim(tmp_path))


def publish(site: Site, sink: Sink, *, backoff_ms: int, order: str = "key") -> None:
    post(
        f"{site.url}/api/v1/endpoints",
        {"url": sink.url(), "backoff_ms": backoff_ms, "backoff_cap_ms": backoff_ms, "order": order},
    )
    event = post(f"{site.url}/api/v1/events", {"type": "a.b", "key": "k", "data": {}})
    until(lambda: states(site, event["id"]) == ["retrying"], what="a failure that is durable", within_s=WITHIN_S)


def states(site: Site, event_id: str) -> list[str]:
    with urllib.request.urlopen(f"{site.url}/api/v1/events/{event_id}", timeout=scaled_s(WITHIN_S)) as answer:
        return [one["state"] for one in json.loads(answer.read())["deliveries"]]


@pytest.mark.parametrize(
    ("jump_s", "order"),
    [
        pytest.param(-DAY_S, "key", id="a day back"),
        pytest.param(-DAY_S, "none", id="a day back, loose", marks=pytest.mark.soak),
        pytest.param(DAY_S, "key", id="a day on", marks=pytest.mark.soak),
        pytest.param(TEN_YEARS_S, "none", id="ten years on, loose"),
        pytest.param(TEN_YEARS_S, "key", id="ten years on", marks=pytest.mark.soak),
    ],
)
def test_a_clock_that_is_set_under_a_server_does_not_stop_its_retries(site: Site, sink: Sink, jump_s: int, order: str):
    sink.follow([Answer(status=503), Answer(status=503), Answer(status=200)])
    publish(site, sink, backoff_ms=1_500, order=order)

    site.clock.set(jump_s)
    sink.wait_for(2, within_s=WITHIN_S)
    site.clock.set(0)

    sink.wait_for(3, within_s=WITHIN_S)


@pytest.mark.parametrize(
    "how",
    [pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.soak), pytest.param(signal.SIGKILL, id="killed")],
)
def test_a_clock_that_is_set_back_by_a_day_does_not_stop_the_retries_of_the_next_server(
    site: Site, sink: Sink, how: signal.Signals
):
    sink.follow([Answer(status=503), Answer(status=503), Answer(status=200)])
    publish(site, sink, backoff_ms=3_000)

    site.clock.set(-DAY_S)
    site.restart(how)

    sink.wait_for(3, within_s=WITHIN_S)


def test_a_server_that_ran_ten_years_ahead_goes_on_when_its_clock_is_right_again(site: Site, sink: Sink):
    sink.follow([Answer(status=503), Answer(status=503), Answer(status=200)])
    site.clock.set(TEN_YEARS_S)
    site.restart(signal.SIGTERM)
    publish(site, sink, backoff_ms=3_000)

    site.clock.set(0)
    site.restart(signal.SIGKILL)

    sink.wait_for(3, within_s=WITHIN_S)


def test_a_clock_that_is_set_forward_makes_no_retry_due(site: Site, sink: Sink):
    sink.follow([Answer(status=503)] * 3)
    publish(site, sink, backoff_ms=60_000)

    site.clock.set(DAY_S)
    site.server.wait_for_line("the store's clock was set by", within_s=WITHIN_S)
    time.sleep(RENEWAL_S)  # and the look that follows the next renewal: nothing may come of either

    assert len(sink.requests) == 1
