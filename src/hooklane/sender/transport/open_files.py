"""How the limit of open files is shared out, so that clients of the API cannot take the files of deliveries."""

from __future__ import annotations

import resource
from typing import NamedTuple

from hooklane.sender.transport.limits import CONNECTIONS_MAX

CLIENTS_MAX = 8_192


class OpenFiles(NamedTuple):
    """Connections to endpoints and from clients; what is left is for the store, the log, name servers and pipes."""

    deliveries: int
    clients: int


def open_files_of(limit: int) -> OpenFiles:
    """How *limit* open files are shared out: a quarter at most is kept back, two thirds of the rest deliver."""
    kept = max(32, min(256, limit // 4))
    rest = max(16, limit - kept)
    deliveries = min(CONNECTIONS_MAX, rest * 2 // 3)
    return OpenFiles(deliveries, min(CLIENTS_MAX, rest - deliveries))


def open_files_now() -> OpenFiles:
    """By the limit that holds now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFiles(CONNECTIONS_MAX, CLIENTS_MAX) if soft == resource.RLIM_INFINITY else open_files_of(soft)
