"""Is an error the end of the thread or task that met it, or a failure of what was called?"""

from __future__ import annotations

import asyncio
import threading


def is_the_end(error: BaseException) -> bool:
    """Whether *error* is no failure of what was called, but the end of the task, thread or process that called it."""
    if isinstance(error, asyncio.CancelledError):
        return _is_cancelled()
    if isinstance(error, SystemExit):
        # In the main thread it may be a signal that ends the process (gunicorn); in others it ends the worker unseen.
        return threading.current_thread() is threading.main_thread()
    # The last by name: so gevent and eventlet end a thread, and neither is a dependency of ours.
    return isinstance(error, KeyboardInterrupt | GeneratorExit) or type(error).__name__ == "GreenletExit"


def _is_cancelled() -> bool:
    """Whether the task that runs here was itself cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0
