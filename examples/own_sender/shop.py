"""The shop: writes its orders and publishes what happened to them, in one commit. `hooklane serve` delivers it."""

import os
import sqlite3
import sys

from hooklane import Outbox

DB = os.environ.get("SHOP_DB", "shop.db")
LIFE = ["order.created", "order.updated", "order.paid", "order.packed", "order.closed"]


def main(order: str, steps: int = len(LIFE)) -> None:
    outbox = Outbox(f"sqlite:///{DB}")
    conn = sqlite3.connect(DB)
    conn.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT)")
    conn.commit()
    for type in LIFE[:steps]:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("INSERT INTO orders VALUES (?, ?) ON CONFLICT DO UPDATE SET state = excluded.state", (order, type))
        published = outbox.publish(type, {"order": order}, key=f"order:{order}", tx=conn)
        conn.commit()
        print(published.event_id, type)
    conn.close()


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
