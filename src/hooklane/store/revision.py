"""When are endpoints still those that a process remembers? When their revision is, which is never given out twice."""

from __future__ import annotations

import secrets

STEP_MAX = 2**31


def step() -> int:
    """From one revision of the endpoints to the next: by chance, and so far that no other writer gets to the same one.

    By steps of 1, a database that lost its last moments (a failover, a restored backup) would come to a revision that
    others know already, with other endpoints. A publisher that remembers those would go on with them.
    """
    return 1 + secrets.randbelow(STEP_MAX)
