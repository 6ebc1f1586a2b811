"""How a row, a handling and a track are written down: MessagePack, in the order that `scripts/bucket.lua` names."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Raw, msgpack

from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, Handling, Known, NewHandling, NewRow, Row, RowId, Track
from hooklane.model.message import Message, Status
from hooklane.store.without_tx.buffer import TrackState, Waiting
from hooklane.store.without_tx.message_head import REASON, VARIANT, head_of, message_of
from hooklane.store.without_tx.names import text_of, track_name

PLACE_DIGITS = 16
NAME_CHARS = 22
LATEST = "~"
"""Sorts after every name: `<place>-~` is the last row that may have that place."""

pack = msgpack.Encoder().encode
unpack = msgpack.Decoder().decode


def raw(data: bytes) -> Raw:
    """*data* inside of a script's arguments. Redis's MessagePack knows no binary type, but its text is any bytes."""
    return Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


# Names


def bucket_of(name: str, buckets: int) -> int:
    """The bucket of a name; a name is a digest, so its first bytes spread evenly."""
    return 0 if buckets == 1 else int.from_bytes(urlsafe_b64decode(name[:4]), "big") % buckets


def member_name(member: RowId) -> str:
    """The row's name in its id `<place>-<name>`; an id that is not one of ours names no row."""
    text = str(member)
    is_ours = len(text) == PLACE_DIGITS + 23 and text[PLACE_DIGITS] == "-" and text.isascii()
    return text[PLACE_DIGITS + 1 :] if is_ours else "-" * 22


# Writing


def row_args(new: NewRow, name: str) -> tuple[str, bytes, tuple[Any, ...]]:
    """A row for `insert.lua`: its name, its message, and its kind, which rows that come together mostly share."""
    message = new.message
    head = pack(head_of(new))
    own = "" if new.status is Status.PENDING else new.status.value
    kind: tuple[Any, ...] = (len(new.handlings), new.received_at * 1000, new.received_at, message.source, own)
    for each in new.handlings:
        line = handling_line(message.source, message.account, each)
        kind += (each.handler, pack(line), line[0], line[3], line[4] or "", line[6] or "", line[7] or "")
    return name, len(head).to_bytes(4, "big") + head + pack((message.body, new.headers)), kind


def insert_words(keeping: Iterable[int], rows: Iterable[tuple[str, bytes, tuple[Any, ...]]]) -> list[Any]:
    """The arguments of `insert.lua` for rows made by `row_args`."""
    kinds: dict[tuple[Any, ...], int] = {}
    lines: list[Any] = []
    for name, message, kind in rows:
        lines += (name, kinds.setdefault(kind, len(kinds) + 1), message)
    return [*keeping, len(kinds), *(word for kind in kinds for word in kind), *lines]


def handling_line(source: str, account: str, new: NewHandling) -> tuple[Any, ...]:
    """A handling as it is kept."""
    track: str | bool = False
    if new.key is not None:
        track = track_name(Track(source, account, new.handler, new.key))
    return (
        new.status.value,
        new.fence,
        new.attempts,
        new.due_at,
        track,
        False if new.key is None else new.key,
        # As text: numbers in Lua are exact up to 2^53 only.
        False if new.seq is None else str(new.seq),
        False if new.prev_seq is None else str(new.prev_seq),
        False if new.error is None else text_of(new.error),
        False if new.traceback is None else text_of(new.traceback),
        False if new.settled_at is None else new.settled_at,
    )


# Reading


def handling_of(handler: str, packed: bytes) -> Handling:
    line = unpack(packed)
    return Handling(
        handler=handler,
        status=Status(line[0]),
        attempts=line[2],
        due_at=Instant(line[3]),
        fence=line[1],
        key=line[5] or None,
        seq=None if line[6] is False else int(line[6]),
        prev_seq=None if line[7] is False else int(line[7]),
        error=_or_none(line[8]),
        traceback=_or_none(line[9]),
        settled_at=Instant(line[10]) if line[10] is not False else None,
    )


def known_of(name: str, answer: Sequence[bytes] | None) -> Known | None:
    if answer is None:
        return None
    head, message, own = answer[:3]
    told = unpack(message[4 : _payload_at(message)])
    return Known(
        id=f"{head[:PLACE_DIGITS].decode()}-{name}",
        status=Status.PENDING if own is None else Status(own.decode()),
        fingerprint=told[10],
        type=told[1],
        handlings=_handlings(answer[3:]),
    )


def claimed_of(answer: Sequence[bytes]) -> tuple[Claimed, Status, Instant]:
    """What was claimed, and what it was before."""
    member, handler, packed, was, due, kept, received_at, source = answer
    line = unpack(packed)
    message, variant, _, headers, _ = _message(source, kept)
    claimed = Claimed(
        id=member.decode(),
        handler=handler.decode(),
        fence=line[1],
        attempts=line[2],
        message=message,
        received_at=Instant(int(received_at)),
        variant=variant,
        key=line[5] or None,
        seq=None if line[6] is False else int(line[6]),
        prev_seq=None if line[7] is False else int(line[7]),
        taken_over=was == b"in_progress",
        headers=headers,
    )
    return claimed, Status(was.decode()), Instant(int(due))


def row_of(answer: Sequence[bytes]) -> Row:
    fields = dict(zip(answer[2::2], answer[3::2], strict=True))
    _, _, received_at, source = fields[b"i"].split(b"|", 3)
    message, variant, reason, headers, purged = _message(source, answer[1])
    own = fields.get(b"s")
    handlings = [part for name, value in fields.items() if name[:1] == b"h" for part in (name[1:], value)]
    return Row(
        id=answer[0].decode(),
        message=message,
        status=Status.PENDING if own is None else Status(own.decode()),
        received_at=Instant(int(received_at)),
        variant=variant,
        reason=fields[b"r"].decode() if b"r" in fields else reason,
        copies=int(fields.get(b"c", 1)),
        purged=purged,
        headers=headers,
        handlings=_handlings(handlings),
    )


def track_of(track: Track, answer: Sequence[bytes | None]) -> TrackState:
    seq, at, tie, token, version = answer[:5]
    waiting: dict[RowId, Waiting] = {}
    rest = [part for part in answer[5:] if part is not None]
    for member, line in zip(rest[::2], rest[1::2], strict=True):
        status, due_at, seq_, prev_seq = line.decode().split("|")
        waiting[member.decode()] = Waiting(
            member.decode(),
            Status(status),
            Instant(int(float(due_at))),
            int(seq_) if seq_ else None,
            int(prev_seq) if prev_seq else None,
        )
    return TrackState(
        track,
        seq=None if seq is None else int(seq),
        at=None if at is None else int(at),
        tie="" if tie is None else tie.decode("utf-8", "surrogatepass"),
        token=None if token is None else token.decode("utf-8", "surrogatepass"),
        version=int(version or 0),
        waiting=waiting,
    )


def _payload_at(kept: bytes) -> int:
    return 4 + int.from_bytes(kept[:4], "big")


def _message(source: bytes, kept: bytes) -> tuple[Message, str, str | None, tuple[tuple[str, str], ...], bool]:
    at = _payload_at(kept)
    head = unpack(kept[4:at])
    purged = len(kept) == at
    body, headers = (b"", []) if purged else unpack(kept[at:])
    message = message_of(source.decode(), head, body)
    return message, head[VARIANT], head[REASON], tuple((name, value) for name, value in headers), purged


def _handlings(parts: Sequence[bytes]) -> tuple[Handling, ...]:
    found = [handling_of(name.decode(), packed) for name, packed in zip(parts[::2], parts[1::2], strict=True)]
    return tuple(sorted(found, key=lambda each: each.handler))


def _or_none(value: Any) -> str | None:
    return None if value is False else value
