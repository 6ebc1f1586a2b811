"""Does what a source asks for fit the store? What it cannot do is refused when it is asked for, never in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hooklane.core.verify.profile import Dedup
from hooklane.errors import ConfigError
from hooklane.receiver.order import InSequence, Latest, NoOrder, Order, Refetch
from hooklane.store.inbox import Capabilities

if TYPE_CHECKING:
    from hooklane.receiver.source import Source

DAY_MS = 86_400_000


def check_fits_store(source: Source, store: Capabilities) -> None:
    """`ConfigError` with all that *source* asks for and *store* cannot give."""
    problems = order_problems(source.name, source.order, store)
    if source.rules.dedup is Dedup.STATE_TOKEN and not store.state_tokens:
        problems.append(
            f'{source.name}: an inbox on {store.name} cannot tell duplicates by state; say dedup="event_id", which'
            " loses a state that comes back, or use another store"
        )
    if store.expires_ms is not None and source.rules.retention_ms > store.expires_ms:
        problems.append(
            f"{source.name}: retention_ms is {source.rules.retention_ms / DAY_MS:g} days, but this inbox on"
            f" {store.name} lets rows expire after {store.expires_ms / DAY_MS:g}: say ttl_days= in its URL"
        )
    if store.payload_bytes_max is not None and source.rules.body_bytes_max > store.payload_bytes_max:
        problems.append(
            f"{source.name}: body_bytes_max is {source.rules.body_bytes_max}, and an inbox on {store.name} keeps"
            f" at most {store.payload_bytes_max}"
        )
    if problems:
        raise ConfigError(problems)


def order_problems(name: str, order: Order, store: Capabilities) -> list[str]:
    """What is wrong with *order* on *store*, if anything."""
    word = order_word(order)
    if word in store.orders:
        return []
    can = ", ".join(f'"{each}"' for each in store.orders)
    return [f'{name}: an inbox on {store.name} cannot keep order="{word}", only {can}']


def kind_problems(name: str, is_async: bool, store: Capabilities) -> list[str]:
    """What is wrong with a handler of this kind on *store*, if anything: it would have no connection of its kind."""
    if is_async and not store.async_handlers:
        return [
            f"{name}: this inbox has sync connections only: make the handler sync, or give it an async engine or pool"
        ]
    if not is_async and not store.sync:
        return [f"{name}: this inbox was given an async engine or pool: make the handler async"]
    return []


def order_word(order: Order) -> str:
    """The word for *order*."""
    match order:
        case NoOrder():
            return "none"
        case Latest():
            return "latest"
        case InSequence():
            return "sequence"
        case Refetch():
            return "refetch"
