"""What does a handler's exception mean?"""

from __future__ import annotations

import traceback
from pathlib import Path

import msgspec

from hooklane.core.admission.failures import Failure, Hopeless, Interrupted, Transient, weigh
from hooklane.errors import Reject, Retry, StoreUnavailable, TransactionAborted, TransactionMisused, UsageError
from hooklane.store.caller import meanings

TRACEBACK_CHARS_MAX = 16_384


def failure_of(error: BaseException) -> Failure:
    """Never again for what cannot get better (rejected, does not fit the handler's model, the contract broken); soon
    where the database was in the way; later for all else.

    A text that is no JSON is the answer of another service that is down: the event itself was read before.
    """
    if isinstance(error, Reject):
        return Hopeless(_words_of(error))
    if isinstance(error, Retry):
        return Transient(error.after_ms)
    if isinstance(error, UsageError) and not isinstance(error, TransactionAborted):
        return Hopeless("transaction_misused" if isinstance(error, TransactionMisused) else "usage")
    if isinstance(error, msgspec.ValidationError) or _is_pydantic(error):
        return Hopeless("poison")
    if isinstance(error, StoreUnavailable):
        return Interrupted()
    return weigh(meanings(error))


def text_of(error: BaseException) -> str:
    """One line for lists."""
    return f"{type(error).__name__}: {_words_of(error)}"[:1000]


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # an error that cannot even be told, whatever its text raises, is still one to be recorded
        return "(its text cannot be had)"


def place_of(error: BaseException) -> str | None:
    """The file and line that raised it: what a log may say where the text of the error may quote a payload."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{Path(frames[0].filename).name}:{frames[0].lineno}" if frames else None


def traceback_of(error: BaseException) -> str:
    """The whole story, bounded; its end is what matters."""
    try:
        told = traceback.format_exception(error)
    except BaseException:  # its own `__getattr__` or text fails, or it holds others more deeply than can be told
        told = [*traceback.format_tb(error.__traceback__), text_of(error)]
    return "".join(told)[-TRACEBACK_CHARS_MAX:]


def _is_pydantic(error: BaseException) -> bool:
    # pydantic is not a dependency of ours, so its error is known by name.
    kind = type(error)
    package = str(kind.__module__).partition(".")[0]  # which may be None
    return kind.__name__ == "ValidationError" and package in ("pydantic", "pydantic_core")
