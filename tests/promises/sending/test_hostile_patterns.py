"""Whatever pattern, template or path somebody gives, looking for it takes no longer than reading it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.support.pace import scaled_s

from hooklane import Inbox, Outbox
from hooklane.core.admission.freshness import pick, rank
from hooklane.core.fanout import STARS_MAX, fits, is_pattern, matches
from hooklane.core.verify.custom import signature_scheme
from hooklane.core.verify.places import steps_of
from hooklane.errors import ConfigError, UsageError
from hooklane.model.lane import DeliveryState
from hooklane.store.reads import EventFilter
from hooklane.store.recovery import Wanted

LONG = "a" * 127 + "b"
HOSTILE = ["*" * 30 + "z", "*a" * 60 + "*z", "*" * 128, "a*" * 63 + "zz", "*aa" * 42 + "z", "*" + "a" * 100 + "*z"]
WITHIN_S = 30
"""For what takes a blink, on a machine that has other things to do; the regular expression took longer than a life."""


def took_s(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_filter_is_matched_in_no_time_however_many_stars_it_has(pattern):
    assert took_s(lambda: [fits(pattern, LONG) for _ in range(1_000)]) < 5


def test_a_filter_has_few_stars():
    assert is_pattern("*." * STARS_MAX)
    assert not is_pattern("*." * (STARS_MAX + 1))


async def test_an_old_row_with_a_hostile_filter_does_not_stop_a_publish(sender):
    for pattern in HOSTILE:
        await sender.endpoint("http://127.0.0.1:9/", types=(pattern,))

    async with asyncio.timeout(scaled_s(WITHIN_S)):
        one = await sender.publish(LONG, key="k")

    assert len(one.stamps) == sum(matches([pattern], LONG) for pattern in HOSTILE) == 1


async def test_an_old_row_with_a_hostile_filter_does_not_stop_a_callers_own_transaction(sender, store_url):
    for pattern in HOSTILE:
        await sender.endpoint("http://127.0.0.1:9/", types=(pattern,))

    def publish() -> Any:
        is_file = store_url.startswith("sqlite:")
        connection: Any = (
            sqlite3.connect(store_url.removeprefix("sqlite:///")) if is_file else psycopg.connect(store_url)
        )
        with Outbox(store_url) as outbox, connection:
            if is_file:
                connection.execute("BEGIN IMMEDIATE")
            published = outbox.publish(LONG, {}, key="k", tx=connection)
        connection.close()
        return published

    async with asyncio.timeout(scaled_s(WITHIN_S)):
        one = await asyncio.to_thread(publish)

    assert len(one.stamps) == 1


@pytest.mark.parametrize("pattern", HOSTILE)
async def test_no_search_and_no_plan_hangs_on_its_pattern(sender, pattern):
    await sender.publish(LONG, key="k")
    store = sender.store

    async with asyncio.timeout(scaled_s(WITHIN_S)):
        found = await store.events("default", EventFilter(type=pattern), None, 10)
        for wanted in (
            Wanted(state=DeliveryState.DEAD, type=pattern, reason=pattern),
            Wanted(state=DeliveryState.DELIVERED, type=pattern),
        ):
            await store.select("default", wanted, None, 10)

    assert len(found.items) == fits(pattern, LONG)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_receivers_own_patterns_are_as_quick(pattern):
    source = Inbox("memory://").source("shop", unsafe=True, profile="standard_webhooks")

    if not is_pattern(pattern):
        with pytest.raises(ConfigError, match=f"at most {STARS_MAX}"):
            source.on(pattern)
    assert took_s(lambda: [rank(LONG, [pattern]) for _ in range(100)]) < 5


@pytest.mark.parametrize("path", ["[0]" * 50_000, "a." * 50_000, "[" * 100_000, "]" * 100_000, "." * 100_000])
def test_a_path_into_json_takes_no_longer_than_it_is(path):
    assert took_s(lambda: pick({"a": [{}]}, path)) < 5
    assert took_s(lambda: steps_of(path)) < 5


@pytest.mark.parametrize("message", ["{" * 50_000, "{body}" * 5_000, "}" * 50_000, "{" * 25_000 + "}" * 25_000])
def test_the_template_of_a_scheme_takes_no_longer_than_it_is(message):
    def build() -> None:
        with contextlib.suppress(UsageError):
            signature_scheme("x-signature", message=message)

    assert took_s(build) < 5
