"""The exceptions of hooklane: each one's type says whose fault it is, its docstring what is true now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class HooklaneError(Exception):
    """The root of the family: everything that hooklane raises on purpose."""


class UsageError(HooklaneError):
    """The caller asked for something that cannot be; nothing was changed."""


class ConfigError(UsageError):
    """One or more settings are wrong; *problems* names each with what was expected."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message holds the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run  pip install 'hooklane[{extra}]'")
        self.extra = extra


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Imports what comes with *extra*; what is missing of it is named with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or extra).partition(".")[0]
        if package == "hooklane":
            raise
        raise MissingExtra(package, extra) from None


class StoreError(HooklaneError):
    """The store did not do what was asked; unless a subclass says more, the outcome is unknown."""


class StoreUnconfirmed(StoreError):
    """The commit was not answered in time: it was not cancelled, so it may have happened, or happen yet."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or is busy beyond its bound; nothing was stored by this call."""


class StoreBusy(StoreUnavailable):
    """Another transaction held what was needed for longer than the caller wanted to wait; nothing was stored."""


class Overloaded(StoreUnavailable):
    """So much waits to be stored that more is not taken in: memory stays bounded, and a refusal is quick."""


class Overtaken(StoreBusy):
    """The same event was decided about meanwhile (it was replayed or skipped by another call): nothing was changed."""


class SearchTooLong(StoreUnavailable):
    """A question about the store was ended because it took too long; the store itself works, and nothing changed."""


class StoreFull(StoreUnavailable):
    """The disk, or a quota, is full; nothing was stored by this call."""


class DiskSpaceLow(StoreFull):
    """Less room is free than is to be kept free; nothing was stored by this call."""


class StoreRefused(StoreError):
    """The store is not one this version may open (corrupt, newer schema, in use); it was not touched."""


class SecretsSealed(StoreRefused):
    """Secrets in the database do not open with the seal keys that this process has; nothing was changed."""


class StoreGone(StoreRefused):
    """The file of the database was removed or replaced while it was open: what is written to it is lost."""


class CommitRefused(StoreError):
    """What was written breaks a rule of the database that is checked at the commit; nothing was stored by this call."""


class LeaseLost(StoreError):
    """Another worker holds this work now, so this worker's outcome was not recorded."""


class Broken(HooklaneError):
    """A part of hooklane failed unexpectedly (a bug). Its process ends; a restart reads everything anew."""

    def __init__(self, what: str, error: BaseException) -> None:
        # One line, whatever the error's own text is made of.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        super().__init__(
            f"{what} failed unexpectedly ({said}), so the process has ended. No event is lost: start it again"
        )


class InvalidEvent(UsageError):
    """An event breaks a rule of the wire (type, key, size, JSON); it was not stored. *code* is stable."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class VerificationError(HooklaneError):
    """A request did not prove who sent it; *reason* is one of a closed set and safe to count and log."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


class ProofUnavailable(VerificationError):
    """What a request is verified by cannot be had now, since the application's own function raised: come again."""


class TransactionMisused(UsageError):
    """A handler has tried to end the transaction it was given; nothing of it was kept. The event is dead."""


class TransactionAborted(UsageError):
    """An error of the database was caught inside a transaction, which can do nothing more: all of it is rolled back."""


class Retry(HooklaneError):
    """Raised by a handler: not now; the event is tried again. With *after* seconds it is tried then, as often as it
    takes until the event is too old (`RetryPolicy.age_ms_max`); without, it is a failure like any other."""

    def __init__(self, reason: str = "the handler asked for a retry", *, after: float | None = None) -> None:
        super().__init__(reason)
        if after is not None and not (isinstance(after, int | float) and 0 <= after < 366 * 86_400):
            raise ValueError(f"Retry(after=…) is a number of seconds from 0 to a year, got {after!r}")
        self.after_ms = None if after is None else int(after * 1000)


class Reject(HooklaneError):
    """Raised by a handler: never; the event becomes a dead letter at once, for a person to look at."""

    def __init__(self, reason: str = "the handler rejected the event") -> None:
        super().__init__(reason)
