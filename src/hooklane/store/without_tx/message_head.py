"""A message without its body, as the stores pack it: one order of fields, written and read in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.inbox import NewRow
from hooklane.model.message import Message

VARIANT, REASON = 3, 12
"""Where the head has what the row keeps beside its message."""


def head_of(new: NewRow) -> tuple[Any, ...]:
    message = new.message
    return (
        message.event_id,
        message.type,
        message.account,
        new.variant,
        message.key,
        message.seq,
        message.prev_seq,
        message.event_time,
        message.delivery_id,
        message.attempt,
        message.fingerprint,
        message.id_signed,
        new.reason,
    )


def message_of(source: str, head: Sequence[Any], body: bytes) -> Message:
    """The message of a row of *source* from the head that `head_of` made."""
    return Message(
        source=source,
        event_id=head[0],
        type=head[1],
        body=body,
        account=head[2],
        key=head[4],
        seq=head[5],
        prev_seq=head[6],
        event_time=head[7],
        delivery_id=head[8],
        attempt=head[9],
        fingerprint=head[10],
        id_signed=head[11],
    )
