"""`--filter 'endpoint:shop http:5xx after:-2h'`: one small grammar wherever something is listed or chosen.

Words with a colon and a value, with blanks between them; all must hold. A value with a blank in it is quoted. `*`
stands for anything in a type (not in the inbox) or a reason, `x` for any digit in `http:`. A time is RFC 3339, or
`-2h`: two hours ago.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit

Filter = Annotated[
    str | None, typer.Option("--filter", metavar="'WORD:VALUE …'", help="Such as 'endpoint:shop http:5xx after:-2h'.")
]

_AGO = re.compile(r"-([0-9]{1,6})([smhd])\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_filter(text: str | None, words: Sequence[str]) -> dict[str, str]:
    """What *text* asks for; it may use *words*."""
    try:
        parts = shlex.split(text or "")
    except ValueError as error:
        raise CallFailed(f"--filter cannot be read: {error}".lower(), Exit.USAGE) from None
    wanted: dict[str, str] = {}
    for part in parts:
        word, colon, value = part.partition(":")
        if not colon or word not in words or not value:
            raise CallFailed(f"--filter knows {', '.join(f'{one}:' for one in words)}; got {part!r}", Exit.USAGE)
        if word in wanted:
            raise CallFailed(f"--filter may say {word}: only once", Exit.USAGE)
        wanted[word] = value
    return wanted


def asked_for(text: str | None, words: Sequence[str], **options: str | None) -> dict[str, Any]:
    """What `--filter` and the options ask for together: *options* by the word of the filter that means the same."""
    wanted: dict[str, Any] = parse_filter(text, words)
    for word, value in options.items():
        if value is not None and word in wanted:
            raise CallFailed(f"`{word}:` in --filter and an option say the same thing: give one of them", Exit.USAGE)
        wanted.setdefault(word, value)
    return wanted


def time_of(text: str | None, name: str = "a time") -> datetime | None:
    """The time that *text* says: RFC 3339 with its zone, or `-2h`."""
    if text is None:
        return None
    try:
        if ago := _AGO.match(text):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time at all, or one before the year 1
    raise CallFailed(f"{name} is a time such as 2026-03-01T12:00:00Z, or -2h; got {text!r}", Exit.USAGE)


def rfc3339_of(text: str | None, name: str = "a time") -> str | None:
    """The time that *text* says, in the form that the API reads."""
    at = time_of(text, name)
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def keep(wanted: Mapping[str, str], *, at: str = "") -> Callable[[Mapping[str, Any]], bool]:
    """Whether an item of a list has what is *wanted*; *at* is the field that `after:` and `before:` mean."""
    after, before = time_of(wanted.get("after"), "after:"), time_of(wanted.get("before"), "before:")

    def is_wanted(one: Mapping[str, Any]) -> bool:
        when = datetime.fromisoformat(one[at]) if at and one.get(at) else None
        if (after or before) and when is None:
            return False
        if when is not None and ((after and when < after) or (before and when >= before)):
            return False
        return all(_has(one, word, value) for word, value in wanted.items() if word not in ("after", "before"))

    return is_wanted


def _has(one: Mapping[str, Any], word: str, value: str) -> bool:
    if word == "http":
        found = str(one.get("reason") or one.get("status") or "")[:3]
        return len(found) == len(value) and all(want in ("x", has) for want, has in zip(value, found, strict=True))
    from hooklane.core.fanout import fits  # which `--help` need not wait for

    has = one.get(word)
    return has is not None and fits(value, str(has))
