"""Moves each of many orders on by some steps, and publishes each step with it: `python shop.py ORDERS STEPS`."""

import os
import sys

import psycopg

from hooklane import Outbox


def main(orders: int, steps: int) -> None:
    url = os.environ["HOOKLANE_DB"]
    outbox = Outbox(url)
    with psycopg.connect(url) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, step INTEGER)")
        (done,) = conn.execute("SELECT coalesce(max(step), 0) FROM orders").fetchone() or (0,)
        conn.commit()
        for step in range(done + 1, done + steps + 1):
            with conn.transaction():
                for order in range(orders):
                    conn.execute(
                        "INSERT INTO orders VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET step = excluded.step",
                        (order, step),
                    )
                    outbox.publish("order.moved", {"step": step}, key=f"order:{order}", tx=conn)
    print(f"published {orders * steps} events of {orders} orders")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
