"""What is in the table, and how it is written down.

One table with keys `pk`, `sk`, one sparse index `due` on `ipk`, `isk`, and the TTL attribute `ttl` (seconds):

    pk r#<name>   sk row          a row: id, src, t received at, m message head, b payload (or n chunks of it; pb while
                                  there is one), st own status unless pending, rs why it is so where a person said it,
                                  c copies, k a copy was answered, x the session that wrote it, hm it was given to more
                                  handlers later, o how often it was owed again; and its handling, if it has one only
    pk r#<name>   sk h#<handler>  a handling of a row that has several: hh handler, hs status, hw status before, hf
                                  fence, ha attempts, hd due at, hk key, hq seq, hp prev_seq, hg place among thin
                                  events, he error, hb traceback, ht settled at, pn name of its track
    pk r#<name>   sk b#<n>        a chunk of a payload that is too large for one item
    pk t#<name>   sk track        a track: n its names, q seq, a at, e tie, k state token, v version, lk holder, lu
                                  until when, and w#<row id> for each row that is owed to it: held|open, due, seq,
                                  prev_seq, place, item
    pk d#<name>   sk digest       a tombstone: e event id, src, t seen at
    pk meta       sk beat|counter|pairs    heartbeat; counter of thin events; which sources and handlers there are

    ipk  due|lease|held|dead#<source>\\x1f<handler>   isk  due_at in 19 digits, then the row id; not when it is settled
    ipk  gap                                          isk  name of a track that has held messages
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import msgpack

from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, Handling, NewHandling, NewRow, Row, RowId, Track
from hooklane.model.message import Message, Status
from hooklane.store.without_tx import message_head
from hooklane.store.without_tx.buffer import TrackState, Waiting

Item = dict[str, Any]
"""An item with plain values: text, integers, bytes, booleans, sets of text."""

INLINE_BYTES_MAX = 300_000
"""An item holds 400 KB; a payload that is larger than this goes into chunks of this size."""
CLASSES = {
    Status.PENDING: "due",
    Status.FAILED: "due",
    Status.IN_PROGRESS: "lease",
    Status.HELD: "held",
    Status.DEAD: "dead",
}
PLACE_DIGITS = 16


# Values


def typed(value: Any) -> dict[str, Any]:
    """A plain value as DynamoDB wants it."""
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case set() | frozenset():
            return {"SS": sorted(value)}
    raise TypeError(f"not a value of ours: {value!r}")


def typed_item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: typed(value) for name, value in item.items() if value is not None}


def plain(attributes: Mapping[str, Any]) -> Item:
    """An item as DynamoDB answers it, with plain values."""
    return {name: _plain(value) for name, value in attributes.items()}


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, held),) = value.items()
    match kind:
        case "N":
            return int(held)
        case "B":
            return bytes(held)
        case "SS":
            return set(held)
    return held


# Names


def row_key(id: RowId) -> Item:
    return {"pk": f"r#{str(id)[PLACE_DIGITS + 1 :]}", "sk": "row"}


def row_name(id: RowId) -> str:
    return str(id)[PLACE_DIGITS + 1 :]


def index_of(status: Status, source: str, handler: str, due_at: int, id: RowId) -> tuple[str, str] | None:
    """Where a handling stands in the sparse index; None when it is settled."""
    kind = CLASSES.get(status)
    return None if kind is None else (f"{kind}#{source}\x1f{handler}", f"{max(0, due_at):019d}#{id}")


# Writing


def row_items(
    new: NewRow, id: str, tracks: Mapping[str, str], places: Mapping[str, int], ttl: int, token: str
) -> list[Item]:
    """The items of a new row: the row itself first, then handlings and chunks if they are apart."""
    message = new.message
    row: Item = row_key(id) | {
        "id": id,
        "x": token,
        "src": message.source,
        "t": new.received_at,
        "m": msgpack.encode(message_head.head_of(new)),
        "pb": True,
    }
    if new.status is not Status.PENDING:
        row["st"] = new.status.value
        if new.status is Status.DEAD:
            row["ipk"], row["isk"] = f"dead#{message.source}\x1f", f"{max(0, new.received_at):019d}#{id}"
    apart: list[Item] = []
    payload = msgpack.encode((message.body, new.headers))
    if len(payload) <= INLINE_BYTES_MAX:
        row["b"] = payload
    else:
        chunks = [payload[at : at + INLINE_BYTES_MAX] for at in range(0, len(payload), INLINE_BYTES_MAX)]
        row["n"] = len(chunks)
        apart += [
            {"pk": row["pk"], "sk": f"b#{number:04d}", "id": id, "b": chunk} for number, chunk in enumerate(chunks)
        ]
    handlings = [
        new_handling(message.source, id, each, tracks.get(each.handler), places.get(each.handler))
        for each in new.handlings
    ]
    if len(handlings) == 1 and "ipk" not in row:
        row |= handlings[0]
    else:
        apart += [{"pk": row["pk"], "sk": f"h#{each['hh']}", "id": id} | each for each in handlings]
    items = [row, *apart]
    if not any(each.status in CLASSES for each in new.handlings) and new.status is not Status.DEAD:
        items = [item | {"ttl": ttl} for item in items]
    return items


def new_handling(source: str, id: str, new: NewHandling, track: str | None, place: int | None) -> Item:
    """The attributes of a handling."""
    at = index_of(new.status, source, new.handler, new.due_at, id)
    item: Item = {
        "hh": new.handler,
        "hs": new.status.value,
        "hf": new.fence,
        "ha": new.attempts,
        "hd": new.due_at,
        "hk": new.key,
        "hq": new.seq,
        "hp": new.prev_seq,
        "hg": place,
        "he": new.error,
        "hb": new.traceback,
        "ht": new.settled_at,
        "pn": track,
        "ipk": at and at[0],
        "isk": at and at[1],
    }
    return {name: value for name, value in item.items() if value is not None}


def waiting_line(item: Item) -> str:
    """What a track knows of a handling that is owed to it."""
    kind = "held" if item["hs"] == Status.HELD else "open"
    where = "row" if item["sk"] == "row" else "h"
    parts = (kind, item["hd"], item.get("hq"), item.get("hp"), item.get("hg"), where)
    return "|".join("" if part is None else str(part) for part in parts)


# Reading


def handling_of(item: Item) -> Handling:
    return Handling(
        handler=item["hh"],
        status=Status(item["hs"]),
        attempts=item["ha"],
        due_at=Instant(item["hd"]),
        fence=item["hf"],
        key=item.get("hk"),
        seq=item.get("hq"),
        prev_seq=item.get("hp"),
        error=item.get("he"),
        traceback=item.get("hb"),
        settled_at=item.get("ht"),
    )


def handlings_of(items: Iterable[Item]) -> tuple[Handling, ...]:
    return tuple(sorted((handling_of(item) for item in items if "hh" in item), key=lambda each: each.handler))


def head_of(item: Item) -> tuple[Any, ...]:
    return tuple(msgpack.decode(item["m"]))


def message_of(item: Item, payload: bytes | None) -> tuple[Message, tuple[tuple[str, str], ...]]:
    """The message of a row item; *payload* None once it was purged."""
    body, headers = (b"", []) if payload is None else msgpack.decode(payload)
    message = message_head.message_of(item["src"], head_of(item), body)
    return message, tuple((name, value) for name, value in headers)


def payload_of(items: Iterable[Item]) -> bytes | None:
    """The payload in the items of a row, chunks in order; None once it was purged."""
    items = list(items)
    row = next(item for item in items if item["sk"] == "row")
    if "b" in row:
        return bytes(row["b"])
    chunks = sorted((item for item in items if item["sk"].startswith("b#")), key=lambda item: str(item["sk"]))
    return b"".join(chunk["b"] for chunk in chunks) if chunks else None


def row_of(items: Iterable[Item]) -> Row:
    items = list(items)
    row = next(item for item in items if item["sk"] == "row")
    payload = payload_of(items)
    message, headers = message_of(row, payload)
    head = head_of(row)
    return Row(
        id=row["id"],
        message=message,
        status=Status(row.get("st", "pending")),
        received_at=Instant(row["t"]),
        variant=head[message_head.VARIANT],
        reason=row.get("rs", head[message_head.REASON]),
        copies=row.get("c", 1),
        purged=payload is None,
        headers=headers,
        handlings=handlings_of(items),
    )


def claimed_of(row: Item, handling: Item, payload: bytes | None, *, was: Status) -> Claimed:
    """*handling* as it is now that it was taken."""
    message, headers = message_of(row, payload)
    return Claimed(
        id=row["id"],
        handler=handling["hh"],
        fence=handling["hf"],
        attempts=handling["ha"],
        message=message,
        received_at=Instant(row["t"]),
        variant=head_of(row)[message_head.VARIANT],
        key=handling.get("hk"),
        seq=handling.get("hq"),
        prev_seq=handling.get("hp"),
        taken_over=was is Status.IN_PROGRESS,
        headers=headers,
    )


def track_of(item: Item) -> TrackState:
    source, account, handler, key = msgpack.decode(item["n"])
    waiting: dict[RowId, Waiting] = {}
    for name, line in item.items():
        if not name.startswith("w#"):
            continue
        kind, due_at, seq, prev_seq, place, where = line.split("|")
        waiting[name[2:]] = Waiting(
            name[2:],
            Status.HELD if kind == "held" else Status.PENDING,
            Instant(int(due_at)),
            int(seq) if seq else None,
            int(prev_seq) if prev_seq else None,
            int(place) if place else 0,
            "row" if where == "row" else f"h#{handler}",
        )
    return TrackState(
        Track(source, account, handler, key),
        seq=item.get("q"),
        at=item.get("a"),
        tie=item.get("e", ""),
        token=item.get("k"),
        version=item.get("v", 0),
        waiting=waiting,
    )


def track_names(track: Track) -> bytes:
    return msgpack.encode((track.source, track.account, track.handler, track.key))
