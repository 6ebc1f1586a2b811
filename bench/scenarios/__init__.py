"""The scenarios by name, each a function of a `Bench` that returns figures and goals."""

from __future__ import annotations

from collections.abc import Callable

from bench.report import Figure, Goal
from bench.rounds import Bench
from bench.scenarios import (
    backlog,
    batches,
    beside,
    delivering,
    end_to_end,
    held_transaction,
    keys,
    publishing,
    recovery,
    workers,
)

Outcome = tuple[list[Figure], list[Goal]]

SCENARIOS: dict[str, Callable[[Bench], Outcome]] = {
    "end-to-end": end_to_end.run,
    "new-keys": end_to_end.run_new_keys,
    "publish": publishing.run,
    "batch": batches.run,
    "deliver": delivering.run,
    "hot-key": delivering.run_hot_key,
    "recovery": recovery.run,
    "takeover": recovery.run_takeover,
    "workers": workers.run,
    "hostile": beside.run_hostile,
    "tenants": beside.run_tenants,
    "search": beside.run_search,
    "receiver": beside.run_receiver,
    "keys": keys.run,
    "backlog": backlog.run,
    "held-transaction": held_transaction.run,
}

ONE_ROUND = frozenset(("publish", "deliver", "backlog", "held-transaction"))
"""Reached long ago: one round unless more are asked for, so that all of it takes a quarter of an hour at most."""
