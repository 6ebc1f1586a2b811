"""What the verbs of an inbox on Redis share: buckets, and how rows are found in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hooklane.model.inbox import Handling, Row, RowId
from hooklane.store.inbox import Flow
from hooklane.store.redis import pack
from hooklane.store.redis.address import Address
from hooklane.store.redis.session import Call
from hooklane.store.without_tx.buffer import Buffer, State


class Base:
    """Keys in buckets: each is one slot of a cluster, and what one script can reach."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._settings = address.settings
        self._prefixes = [f"{self._settings.prefix}:{{{number}}}" for number in range(self._settings.buckets)]
        self._next_bucket = 0
        self.keeping = (self._settings.ttl_ms, int(self._settings.drops_payload))

    def _prefix(self, name: str) -> str:
        return self._prefixes[pack.bucket_of(name, self._settings.buckets)]

    def _by_bucket(self, items: list[Any], name: Callable[[Any], str]) -> Iterator[tuple[str, list[Any]]]:
        """*items* in groups that may be one script: those of one bucket."""
        if len(self._prefixes) == 1:
            if items:
                yield self._prefixes[0], items
            return
        groups: dict[str, list[Any]] = {}
        for item in items:
            groups.setdefault(self._prefix(name(item)), []).append(item)
        yield from groups.items()

    def _in_turn(self) -> list[str]:
        """All buckets, beginning with another one each time, so that none is always last."""
        self._next_bucket = (self._next_bucket + 1) % len(self._prefixes)
        return self._prefixes[self._next_bucket :] + self._prefixes[: self._next_bucket]

    def _handling(self, id: RowId, handler: str) -> Flow[Handling | None]:
        answer = yield Call("handling", self._prefix(pack.member_name(id)), pack.pack((id, handler)))
        return None if answer is None else pack.handling_of(handler, answer)

    def _load(self, members: Sequence[str]) -> Flow[list[Row]]:
        rows: list[Row] = []
        for prefix, group in self._by_bucket(list(members), pack.member_name):
            answers = yield Call("rows", prefix, pack.pack((group,)))
            rows += [pack.row_of(answer) for answer in answers if answer is not None]
        return rows

    def _later(self, id: RowId, verb: str, *args: Any) -> Flow[None]:
        buffer: Buffer = yield State()
        buffer.later.append((pack.member_name(id), verb, id, *args))
