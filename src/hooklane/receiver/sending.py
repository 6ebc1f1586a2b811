"""May `event.send` write here? Only where it is one commit with the inbox."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hooklane.errors import ConfigError, UsageError
from hooklane.store.caller import adapt
from hooklane.store.inbox import InboxStore


def check_outbox(store: InboxStore, outbox: Any) -> None:
    """Refuse an outbox that cannot be one commit with *store*: what is sent must not be a silent second commit."""
    if not store.capabilities.outbox:
        raise ConfigError([f"event.send cannot be one commit with an inbox on {store.capabilities.name}"])
    home = getattr(outbox, "home", None)
    if home is None or not store.capabilities.sync:
        return  # an async engine cannot be asked here; there the first send checks
    session = store.begin()
    try:
        adapt(session.tx).run(_nothing(), home)
    except UsageError as error:
        raise ConfigError([f"the outbox is not in the database of the inbox: {error}"]) from None
    finally:
        session.close()


def _nothing() -> Generator[Any, Any, None]:
    yield from ()
