"""A chore of a server process: done again and again until it is told to stop, whatever the store says meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hooklane.errors import StoreError

log = logging.getLogger("hooklane.api")


async def repeat(work: Callable[[], Awaitable[None]], every_s: float, stopping: asyncio.Event, what: str) -> None:
    """Do *work* every *every_s*; a store that fails is told of once, until it answers again."""
    is_told = False
    while not stopping.is_set():
        try:
            await work()
            is_told = False
        except StoreError as error:
            if not is_told:
                log.warning("%s: %s", what, error)
            is_told = True
        await came(stopping, every_s)


async def came(event: asyncio.Event, within_s: float) -> bool:
    """Wait for *event*, for so long at most; whether it came."""
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False
