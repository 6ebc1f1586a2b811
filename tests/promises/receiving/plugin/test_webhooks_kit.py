"""The fixture `webhooks`: every provider, time and order, and what it says to mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooklane import BreakerPolicy, Inbox, Reply, Request, Retry, RetryPolicy, latest
from hooklane.core.profiles import find_profile, profile_names
from hooklane.core.verify.custom import profile_of, signature_scheme
from hooklane.errors import UsageError
from hooklane.testing import Clock, Webhooks, schedules
from hooklane.testing.credentials import credentials

MODES = ["durable", "inline"]


# Every provider


@pytest.mark.parametrize("name", profile_names())
def test_every_provider_has_correctly_signed_events(name):
    profile = find_profile(name)
    held = credentials(profile, "of the application")
    clock = Clock()
    with Webhooks(Inbox("memory://", "inline", clock=clock)) as webhooks:
        source = webhooks.inbox.source(name, [held.secret], **held.options)
        source.on("*", order="none", name="any")(lambda event, tx: None)
        keys = source.keys
        event = getattr(webhooks, name)("thing.done", data={"total": 5}, key="k")

        webhooks.deliver(event, webhooks.tampered(event))

        assert webhooks.statuses == [200, 401]
        assert webhooks.applied(event) == 1
        another = getattr(webhooks, name)("thing.done", data={"total": 5}, key="other")
        webhooks.deliver(another)
        assert webhooks.verdicts == ["applied"], "the same content is another event"
        clock.advance(1)
        webhooks.deliver(webhooks.retry(event))
        # Hints carry no id and say only that something changed: each counts.
        assert webhooks.verdicts == (["applied"] if profile.hints else ["duplicate"])
    assert source.keys is keys


def test_an_unsafe_source_a_source_of_another_name_and_a_scheme_of_ones_own(webhooks):
    inbox = Inbox("memory://", "inline")
    own = profile_of("crm", scheme=signature_scheme("x-crm-signature"), id="id", type="type", key="customer")
    inbox.source("billing", ["a secret that is long enough"], profile="github")
    inbox.source("crm.eu", ["another secret, long enough"], profile=own)
    inbox.source("shopify", unsafe=True)
    for source in inbox.sources.values():
        source.on("*")(lambda event, tx: None)
    webhooks.use(inbox)
    events = [webhooks.github("push"), webhooks.event("crm.eu", "customer.updated"), webhooks.shopify("orders/create")]

    webhooks.deliver(events)

    assert webhooks.verdicts == ["applied"] * 3
    with pytest.raises(UsageError, match="unsafe"):
        webhooks.tampered(events[2])


def test_a_batch_is_several_events_in_one_request(webhooks):
    inbox = Inbox("memory://", "inline")
    seen: list[str] = []
    inbox.source("sportsstack", ["a shared secret"]).on("*")(lambda event, tx: seen.append(event.id))
    webhooks.use(inbox)
    first, second = (webhooks.sportsstack("odds", {"price": price}, key=f"match:{price}") for price in (1, 2))

    webhooks.deliver(webhooks.batch(first, second))

    assert seen == [first.id, second.id]
    inbox.source("stripe", ["whsec_x"])
    with pytest.raises(UsageError, match="one event per request"):
        webhooks.batch(webhooks.stripe("a"), webhooks.stripe("b"))


# Time and order


def subscriptions(mode: Any, **options: Any) -> tuple[Inbox, list[str]]:
    inbox = Inbox("memory://", mode, **options)
    state: list[str] = []
    order = latest(key="data.object.id", at="created")

    @inbox.source("stripe", ["whsec_x"]).on("customer.subscription.*", order=order)
    def sync(event, tx):
        state.append(event.data["object"]["status"])

    return inbox, state


def subscription(webhooks: Any, status: str, minute: int) -> Any:
    data = {"object": {"id": "sub_1", "status": status}}
    happened_at = webhooks.inbox.clock() + minute * 60_000
    return webhooks.stripe("customer.subscription.updated", data=data, happened_at=happened_at)


@pytest.mark.parametrize("mode", MODES)
def test_a_stale_event_arrives_late_and_changes_nothing(webhooks, mode):
    inbox, state = subscriptions(mode)
    webhooks.use(inbox)
    event = subscription(webhooks, "active", 0)
    older = webhooks.stale(event, by=60, data={"object": {"id": "sub_1", "status": "trialing"}})

    webhooks.deliver(event)
    webhooks.deliver(older)

    assert state == ["active"]
    assert webhooks.applied(older) == 0


@given(arrivals=schedules([0, 1, 2]), mode=st.sampled_from(MODES))
@settings(max_examples=40, deadline=None)
def test_whatever_the_schedule_the_newest_state_wins(arrivals, mode):
    inbox, state = subscriptions(mode)
    with Webhooks(inbox) as webhooks:
        events = [subscription(webhooks, status, n - 5) for n, status in enumerate(("trialing", "active", "canceled"))]
        for number in arrivals:
            webhooks.deliver(events[number])

        assert state[-1] == "canceled"
        assert webhooks.applied(events[2]) == 1
        assert all(webhooks.applied(event) <= 1 for event in events)


@given(st.data())
@settings(max_examples=50)
def test_a_schedule_has_every_event_and_no_more_copies_than_asked_for(data):
    arrivals = data.draw(schedules("abc", copies_max=2))

    assert set(arrivals) == set("abc")
    assert all(1 <= arrivals.count(event) <= 2 for event in "abc")


def test_a_reordered_list_is_the_same_for_the_same_seed_and_never_the_old_order(webhooks):
    for size in range(2, 6):
        events = [object() for _ in range(size)]
        for seed in range(20):
            assert webhooks.reordered(events, seed) == webhooks.reordered(events, seed) != events


def test_time_passes_when_the_test_says_so(webhooks):
    clock = Clock()
    inbox = Inbox("memory://", clock=clock)
    webhooks.use(inbox)

    @inbox.source("stripe", ["whsec_x"]).on("*")
    def flaky(event, tx):
        if event.attempt == 1:
            raise Retry("not yet", after=600)

    event = webhooks.stripe("invoice.paid")
    webhooks.deliver(event)
    assert (webhooks.runs(event), webhooks.applied(event)) == (1, 0)
    webhooks.wait(601)
    assert (webhooks.runs(event), webhooks.applied(event)) == (2, 1)
    webhooks.use(Inbox("memory://"))
    with pytest.raises(UsageError, match=r"hooklane\.testing\.Clock"):
        webhooks.wait(1)


def test_a_breaker_opens_and_probes_by_the_time_of_the_test(webhooks):
    inbox, is_away = Inbox("memory://", clock=Clock()), True
    webhooks.use(inbox)
    at_once, breaker = RetryPolicy(backoff_ms=1, backoff_cap_ms=1), BreakerPolicy(calls_min=3, open_ms=30_000, probes=1)

    @inbox.source("stripe", ["whsec_x"]).on("*", retry=at_once, breaker=breaker)
    def depends(event, tx):
        if is_away:
            raise OSError("the bank is away")

    events = [webhooks.stripe("invoice.paid") for _ in range(3)]
    webhooks.deliver(events)
    webhooks.wait(29)
    assert [webhooks.runs(event) for event in events] == [1, 1, 1], "it is left alone"
    is_away = False
    webhooks.wait(2)
    assert [webhooks.applied(event) for event in events] == [1, 1, 1]


async def test_an_inbox_on_an_async_engine_is_delivered_to_in_its_own_loop(webhooks, postgres_url):
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
    inbox = Inbox(engine)
    webhooks.use(inbox)

    @inbox.source("stripe", ["whsec_x"]).on("*")
    async def handler(event, tx): ...

    event = webhooks.stripe("invoice.paid")
    with pytest.raises(UsageError, match="adeliver"):
        webhooks.deliver(event)
    await webhooks.adeliver(event, copies=3, concurrent=True)
    assert webhooks.applied(event) == 1
    await engine.dispose()


# A receiver that is not an inbox


def test_any_function_can_be_tested(webhooks):
    seen: list[str] = []

    def receive(request: Request) -> int:
        seen.append(request.url)
        return 204

    webhooks.use(receive, secrets={"stripe": "whsec_x"})
    webhooks.deliver(webhooks.stripe("invoice.paid"), copies=2, concurrent=True)

    assert (webhooks.statuses, len(seen)) == ([204, 204], 2)
    with pytest.raises(UsageError, match="not an inbox"):
        webhooks.applied(webhooks.stripe("invoice.paid"))


async def test_an_async_function_can_be_tested(webhooks):
    async def receive(request: Request) -> Reply:
        return Reply(202)

    webhooks.use(receive)
    await webhooks.adeliver(webhooks.github("push"))

    assert webhooks.statuses == [202]


# Said clearly


def test_without_an_inbox_the_error_says_what_to_do():
    with Webhooks() as webhooks, pytest.raises(UsageError, match="fixture called `inbox`"):
        webhooks.event("stripe", "invoice.paid")


def test_mistakes_are_named(webhooks):
    inbox = Inbox("memory://")
    inbox.source("a", ["x" * 20], profile="github")
    inbox.source("b", ["x" * 20], profile="github")
    webhooks.use(inbox)
    with pytest.raises(AttributeError, match="none is of Stripe"):
        webhooks.stripe("invoice.paid")
    with pytest.raises(AttributeError, match="several"):
        webhooks.github("push")
    with pytest.raises(AttributeError, match="did you mean github"):
        webhooks.gitub("push")
    with pytest.raises(UsageError, match="no source 'c'"):
        webhooks.event("c", "push")
    with pytest.raises(UsageError, match="crash point"):
        webhooks.crash(webhooks.event("a", "push"), "somewhere")
    with pytest.raises(AssertionError, match="did not come to after_commit"):
        webhooks.crash(webhooks.event("a", "push"), "after_commit")
    with pytest.raises(UsageError, match="takes an Inbox"):
        webhooks.use(7)
    with pytest.raises(UsageError, match="nothing to deliver"):
        webhooks.deliver([])


def test_no_provider_is_hidden_by_a_method_of_the_kit():
    assert not set(profile_names()) & set(dir(Webhooks))
