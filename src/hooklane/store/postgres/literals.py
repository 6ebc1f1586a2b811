"""How do many values travel in one parameter? As the text of an array.

asyncpg looks at every element of a list it is given, to see whether it is a list again, and then encodes it; one text
that PostgreSQL takes apart costs both sides less. A parameter is then written `:name::text::bigint[]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_encode = msgspec.json.Encoder().encode


def numbers(values: Sequence[float | None]) -> str:
    """Numbers and NULLs; a list of them is written in JSON as in an array, but for its brackets."""
    return f"{{{_encode(values)[1:-1].decode()}}}"


def texts(values: Sequence[str | None]) -> str:
    """Any texts that PostgreSQL can hold; it cannot hold NUL, which therefore stands between them here."""
    if not values:
        return "{}"
    if None in values:
        return "{" + ",".join(["NULL" if value is None else f'"{_escaped(value)}"' for value in values]) + "}"
    joined = "\0".join(values)  # type: ignore[arg-type]
    if joined.count("\0") != len(values) - 1:
        raise ValueError("a text holds NUL, which PostgreSQL cannot store")
    return '{"' + _escaped(joined).replace("\0", '","') + '"}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
