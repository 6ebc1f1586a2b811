"""How much of a peer's answer is read, and for how long anything is kept."""

from __future__ import annotations

HEADERS_MAX = 100
HEAD_BYTES_MAX = 64 * 1024
"""Of everything before the body, interim responses included."""
INTERIM_MAX = 8
BODY_BYTES_MAX = 16 * 1024
BODY_S_MAX = 2.0
HEAD_BYTES_KEPT = 16 * 1024
"""Of a head, in an Answer; heads up to HEAD_BYTES_MAX are still read and judged."""
HINT_CHARS_MAX = 128

AGE_S_MAX = 60.0
"""Of a connection: its address was vetted when it was made, and must be vetted again."""
IDLE_S_MAX = 15.0
CONNECTIONS_MAX = 4_096

SENT_AT_ONCE = 16 * 1024
"""So many bytes of a request the system takes in one write."""
