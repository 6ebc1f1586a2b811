"""How is a database's address shown? As it was given, but for its passwords."""

from __future__ import annotations

import re

_HIDDEN = "***"
# `password=` in the query of a URL or in a string of `name=value`, quoted or not.
_NAMED = re.compile(r"(?i)(\b\w*(?:pass(?:word|wd|phrase)?|secret\w*|token)\s*=\s*)('(?:\\.|[^'\\])*'?|[^&\s]*)")


def shown(address: str) -> str:
    """*address* for a person or a log, without the passwords in it, however it is spelled."""
    scheme, separator, rest = address.partition("://")
    # The last @: an unescaped one may stand in the password. To hide too much does no harm.
    user, at, tail = rest.rpartition("@")
    if separator and at:
        name, colon, _ = user.partition(":")
        address = f"{scheme}://{name}{colon and f':{_HIDDEN}'}@{tail}"
    return _NAMED.sub(rf"\g<1>{_HIDDEN}", address)
