"""Waiting for something that nobody announces, with a bound."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(question: Callable[[], Awaitable[T | None]], *, within_s: float = 10.0) -> T:
    """The first truthy answer to *question*, asked again and again."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not (answer := await question()):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"waited {within_s:g} s in vain for {question.__name__}")
        await asyncio.sleep(0.01)
    return answer
