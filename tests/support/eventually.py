"""Waiting for something that nobody announces, with a bound."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support.pace import scaled_s

T = TypeVar("T")


async def eventually(question: Callable[[], Awaitable[T | None]], *, within_s: float = 10.0) -> T:
    """The first truthy answer to *question*, asked again and again; *within_s* is for a quiet machine."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while not (answer := await question()):
        if clock() - began > within_s and clock() - began > scaled_s(within_s):
            raise AssertionError(f"waited {clock() - began:.0f} s in vain for {question.__name__}")
        await asyncio.sleep(0.01)
    return answer
