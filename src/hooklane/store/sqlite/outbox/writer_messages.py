"""What do the messages to and from the writer process look like? (Not compiled: msgspec reads their annotations.)"""

from __future__ import annotations

import msgspec

from hooklane.store.sqlite.outbox.outcomes import Ack, Held

DraftRow = tuple[
    str,
    str,
    str | None,
    bytes,
    int,
    str,
    str | None,
    str | None,
    tuple[str, ...] | None,
    tuple[str, ...],
    bytes,
    str | None,
]
"""The event's fields in their order, then the draft's."""


class Earlier(msgspec.Struct, array_like=True, frozen=True):
    """An event that an earlier publish under the same name made."""

    event_id: str
    type: str
    key: str | None
    created_at: int
    stamps: list[tuple[str, int | None]]


class PublishAnswer(msgspec.Struct, array_like=True, frozen=True):
    """For each draft None, what was published before it, or (code, detail) of a refusal; and what lanes grew by.

    Without a span, nothing was stored.
    """

    results: list[Earlier | dict[str, str] | None]
    grown: list[tuple[int, int, int, str, str | None, int]]
    span: tuple[int, int, int, int] | None


class CommitRequest(msgspec.Struct, array_like=True, frozen=True):
    """The outcomes of one worker: acks and heads that are tried again in short, and all else."""

    worker: str
    epochs: dict[int, int]
    acks: list[Ack]
    held: list[Held]
    others: bytes


read_drafts = msgspec.msgpack.Decoder(list[DraftRow]).decode
read_published = msgspec.msgpack.Decoder(PublishAnswer).decode
read_commit = msgspec.msgpack.Decoder(CommitRequest).decode
read_report = msgspec.msgpack.Decoder(tuple[int, frozenset[int], frozenset[int]]).decode
