"""The process that writes for a server on SQLite; started by it, never by hand.

python -m hooklane.cli.scribe DESCRIPTOR PATH BUSY_WAIT_MS
"""

from __future__ import annotations

import gc
import sys

from hooklane.core.fanout import Fanout
from hooklane.store.sqlite.outbox.store import orders_for
from hooklane.store.sqlite.scribe import write_orders

COMMAND = (sys.executable, "-m", "hooklane.cli.scribe")


def main(fd: str, path: str, busy_wait_ms: str) -> None:
    orders, undone = orders_for(Fanout())
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # orders make no circles
    write_orders(int(fd), path, int(busy_wait_ms), orders, undone)


if __name__ == "__main__":
    main(*sys.argv[1:])
