"""Publish only: nobody is there to deliver to, so this is the door, the group commit and the 202."""

from __future__ import annotations

from contextlib import ExitStack

from bench.gateway import gateway
from bench.limits import postgres_commits_per_second, sqlite_commits_per_second
from bench.report import Figure, Goal
from bench.rounds import Bench, Contender, interleave, stage


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    with stage(bench, "publish only") as folder, ExitStack() as stack:
        contenders = []
        single: list[Figure] = []
        for store in bench.stores:
            db = store.fresh()
            one = stack.enter_context(gateway(db, folder))
            contenders.append(Contender(store.name, one, store=store))
            commits = sqlite_commits_per_second(folder) if store.name == "sqlite" else postgres_commits_per_second(db)
            single.append(Figure(scenario="one row, one commit", variant=store.name, rates=[commits]))
        interleave(bench, contenders)
        return [*(one.figure("publish only") for one in contenders), *single], []
