"""May `event.send` write here? Only where it is one commit with the inbox."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from hooklane.errors import ConfigError, UsageError
from hooklane.store.caller import adapt
from hooklane.store.inbox import InboxStore


class PublishesInTx(Protocol):
    """An `Outbox(…)`, as far as the inbox needs it."""

    def publish(self, type: str, data: object, *, key: str | None = None, tx: Any = ...) -> Any: ...


def check_outbox(store: InboxStore, outbox: object) -> None:
    """Refuse an outbox that cannot be one commit with *store*: what is sent must not be a silent second commit."""
    if not store.capabilities.outbox:
        raise ConfigError(
            [f"outbox=…: event.send cannot be one commit with an inbox on {store.capabilities.name}: leave it out"]
        )
    if not callable(getattr(outbox, "publish", None)):
        raise ConfigError([f"outbox must be an Outbox(…) of the same database, got {type(outbox).__name__}"])
    identity = getattr(outbox, "identity", None)
    if identity is None or not store.capabilities.sync:
        return  # an async engine cannot be asked here; there the first send checks
    session = store.begin()
    try:
        adapt(session.tx).run(_nothing(), identity)
    except UsageError as error:
        raise ConfigError([f"the outbox is not in the database of the inbox: {error}"]) from None
    finally:
        session.close()


def _nothing() -> Generator[Any, Any, None]:
    yield from ()
