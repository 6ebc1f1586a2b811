"""What should an operator be told about an inbox before, or while, it goes wrong? One sentence and one remedy each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hooklane.core.admission.breaker import BreakerState
from hooklane.core.verify.scheme import KeyKind
from hooklane.model.message import Status
from hooklane.model.size import counted
from hooklane.receiver.inbox import Inbox
from hooklane.receiver.source import Source

LAG_MS_MAX = 300_000
INLINE_WINDOW_MS = 3_600_000
"""A sender that gives up sooner than this should not depend on its retries."""


@dataclass(frozen=True, slots=True)
class Advice:
    """*kind* is one of the words below."""

    NO_HANDLER: ClassVar = "no_handler"
    LOSES_EVENTS: ClassVar = "loses_events"
    BAD_SECRET: ClassVar = "bad_secret"
    UNSAFE: ClassVar = "unsafe"
    NO_CERTIFICATES: ClassVar = "no_certificates"
    DEAD: ClassVar = "dead"
    LAG: ClassVar = "lag"
    BREAKER: ClassVar = "breaker"

    kind: str
    text: str
    hint: str


def advise(inbox: Inbox) -> Iterator[Advice]:
    """What its configuration alone says; nothing is asked of the store."""
    for source in inbox.sources.values():
        name = source.name
        if not source.handlers:
            yield Advice(
                Advice.NO_HANDLER,
                f"source {name!r} has no handler: its events are stored as ignored",
                'register one with @source.on("type.*"); what was ignored can be replayed to it',
            )
        if source.keys is None:
            yield Advice(
                Advice.UNSAFE,
                f"source {name!r} checks no signature: any sender is believed",
                "give it secrets=[…]",
            )
        elif source.keys.problems:
            yield Advice(Advice.BAD_SECRET, "; ".join(source.keys.problems), "correct it, or take it out of secrets")
        if source.keys is not None and source.keys.certificates is None and _is_certified(source):
            yield Advice(
                Advice.NO_CERTIFICATES,
                f"source {name!r} has no certificates to verify with: every request is refused",
                "give it certificates=…, a function that gets the PEM behind a URL of the provider",
            )
        if inbox.mode == "inline":
            yield from _budget(source)


def _is_certified(source: Source) -> bool:
    return any(scheme.key is KeyKind.CERTIFIED for scheme in source.profile.schemes)


def _budget(source: Source) -> Iterator[Advice]:
    budget, title = source.profile.budget, source.profile.title
    if not budget.retries:
        lost = f"{title} never retries: in inline mode an event that fails once is lost"
    elif budget.window_ms is not None and budget.window_ms < INLINE_WINDOW_MS:
        lost = f"{title} gives up after {budget.window_ms // 1000} s: in inline mode an event that fails longer is lost"
    else:
        return
    yield Advice(Advice.LOSES_EVENTS, f"source {source.name!r}: {lost}", 'use mode="durable"')


def advise_on_state(inbox: Inbox) -> Iterator[Advice]:
    """What its store and this process say now."""
    stats = inbox.stats()
    if stats.dead:
        yield Advice(
            Advice.DEAD,
            f"{counted(stats.dead, 'dead letter waits', 'dead letters wait')} for a person",
            "look at them, then replay or skip",
        )
    owed = [count for count in stats.counts if count.status in (Status.PENDING, Status.FAILED, Status.HELD)]
    if owed and stats.lag_ms > LAG_MS_MAX:
        yield Advice(
            Advice.LAG,
            f"the oldest event that is owed is {stats.lag_ms // 1000} s old",
            "is a worker running? does a handler fail, or a key wait for a predecessor?",
        )
    for (source, handler), state in stats.breakers.items():
        if state is not BreakerState.CLOSED:
            yield Advice(Advice.BREAKER, f"the breaker of {source}/{handler} is {state}", "its dependency is failing")
