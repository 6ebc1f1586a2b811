"""Acks of a worker on another host, as many as it can make: the server that is measured folds them into their lanes.

On PostgreSQL only: on SQLite one process delivers, and writes where its lanes are by itself.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

PER_S = 10_000
EVERY_S = 0.05
_LANES = "SELECT lane_id, pid FROM hooklane.lane_name WHERE endpoint_id = %s ORDER BY lane_id"
_ACKS = """
INSERT INTO hooklane.ack (pid, lane_id, head, tenant, at)
SELECT pid, lane_id, %s, 'default', %s FROM unnest(%s::integer[], %s::bigint[]) AS lane (pid, lane_id)
"""


def play(pipe: Connection, db: str, endpoint_id: str, seqs: int) -> int:
    """Ack the lanes of *endpoint_id* one after the other, each up to its *seqs*, until told to end; how many acks."""
    import psycopg

    many, acked = int(PER_S * EVERY_S), 0
    with psycopg.connect(db, autocommit=True) as connection:
        lanes = connection.execute(_LANES, (endpoint_id,)).fetchall()
        pipe.send("begun")
        due = time.monotonic()
        for seq in range(1, seqs + 1):
            for at in range(0, len(lanes), many):
                some = lanes[at : at + many]
                values = (seq + 1, int(time.time() * 1000), [pid for _, pid in some], [lane for lane, _ in some])
                connection.execute(_ACKS, values)
                acked += len(some)
                due += EVERY_S
                if pipe.poll(max(0.0, due - time.monotonic())):
                    return acked
    return acked
