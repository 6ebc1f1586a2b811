"""A standby that is frozen, and what waits for it: for tests of what may be told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.failover import Pair, ask
from tests.support.pace import scaled_s
from tests.support.processes import until

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' ORDER BY pid"


def a_commit_waits(pair: Pair) -> list[int]:
    """The processes of the primary whose commit waits for the standby; there is one at least."""
    return [int(str(pid)) for (pid,) in until(lambda: ask(pair.primary, WAITING), what="a commit to wait")]


async def only_on_the_primary(pair: Pair, commit: Callable[[], Awaitable[Any]]) -> Any:
    """What *commit* writes is visible, and the standby does not have it: an operator has cancelled the wait.

    What it came to: a result, or an error.
    """
    pair.freeze()
    task = asyncio.ensure_future(commit())
    for pid in await asyncio.to_thread(a_commit_waits, pair):
        ask(pair.primary, f"SELECT pg_cancel_backend({pid})")
    (result,) = await asyncio.gather(task, return_exceptions=True)
    return result


async def waits_for_the_standby(pair: Pair, told: Awaitable[Any]) -> Any:
    """Insist that *told* is not told before the standby has all; its result."""
    task = asyncio.ensure_future(told)
    await asyncio.to_thread(a_commit_waits, pair)
    assert not task.done()
    pair.thaw()
    return await asyncio.wait_for(task, scaled_s(30))
