"""Who comes when? Copies of webhooks one after the other, and calls that begin at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hooklane.errors import UsageError
from hooklane.receiver.threads import closing
from hooklane.testing.provider import Webhook


def arrivals_of(events: Sequence[Webhook | Sequence[Webhook]], copies: int) -> list[Webhook]:
    """*events*, of which some may be lists, each *copies* times in a row."""
    if copies < 1:
        raise UsageError(f"copies must be at least 1, got {copies}")
    flat: list[Webhook] = []
    for each in events:
        flat.extend([each] if isinstance(each, Webhook) else each)
    if not flat:
        raise UsageError("there is nothing to deliver")
    return [each for each in flat for _ in range(copies)]


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of *calls*, made by as many threads that start at the same moment; the first error is raised."""
    start = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(number: int, call: Callable[[], Any]) -> None:
        start.wait()
        try:
            results[number] = call()
        except BaseException as error:  # raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=closing(partial(run, *each))) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
