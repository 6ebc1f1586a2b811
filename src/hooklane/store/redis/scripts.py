"""The Lua scripts of the inbox, put together: each verb has a file, and begins with what all of them share.

A script is called by its digest, so its length costs nothing but the first time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

# Verbs whose writes wait for the commit: `commit` checks the conditions of all of them, then applies all.
BUFFERED = (
    "complete", "fail", "reopen", "settle", "attach", "restate", "free", "cover", "track", "unlock", "remember",
    "retract", "unclaim",
)  # fmt: skip
NEEDS_ERASE = ("prune",)


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script called *name*."""
    parts = [_file("bucket")]
    if name != "insert":
        parts.append(_file("arguments"))
    if name == "commit":
        parts += ["local verbs, erase = {}, nil", _file("erase"), *(_file(verb) for verb in BUFFERED)]
    elif name in NEEDS_ERASE:
        parts += ["local erase", _file("erase")]
    parts.append(_file(name))
    text = "\n".join(parts)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _file(name: str) -> str:
    return resources.files(__package__).joinpath("scripts", f"{name}.lua").read_text("utf-8")
