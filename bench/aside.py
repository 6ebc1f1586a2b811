"""Callers that misbehave or search while the traffic of others is measured, in a process of their own.

They stand for other people's machines: what they do must not keep the server from its turn, so it goes before them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

NICER = 15


def go_ahead() -> None:
    """What is measured goes before other programs, on a machine that is not quiet; not before their use of the disk."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def low_priority() -> None:
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.nice(NICER)
    else:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Aside:
    """The other process."""

    def __init__(self, pipe: Connection, pid: int) -> None:
        self.pipe = pipe
        self.pid = pid
        self.result: Any = None
        """What *play* returned, once the block is over."""


@contextmanager
def aside(play: Callable[..., Any], *args: Any) -> Iterator[Aside]:
    """*play* with a pipe and *args* in a process of its own, from its first word on it until the block ends.

    It says one word when it has begun, and is done when something comes through the pipe.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(play, theirs, *args), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    one = Aside(ours, process.pid)
    try:
        if not ours.poll(120):
            raise SystemExit("the other party did not begin within two minutes")
        ours.recv()
        yield one
        ours.send("end")
        one.result = ours.recv()
    finally:
        ours.close()
        process.join(30)


def _run(play: Callable[..., Any], pipe: Connection, *args: Any) -> None:
    low_priority()
    try:
        result = play(pipe, *args)
        pipe.recv()
        pipe.send(result)
    except (EOFError, BrokenPipeError):
        pass  # the bench was given up
