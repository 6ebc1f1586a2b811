"""The process that writes for a server on SQLite; started by it, never by hand.

python -m hooklane.cli.writer_process DESCRIPTOR PATH BUSY_WAIT_MS
"""

from __future__ import annotations

import gc
import sys

COMMAND = (sys.executable, "-m", "hooklane.cli.writer_process")


def main(fd: str, path: str, busy_wait_ms: str) -> None:
    # Here, since every server asks for the COMMAND, and one on PostgreSQL for nothing more.
    from hooklane.core.fanout import Fanout
    from hooklane.store.sqlite.outbox.writer_works import works_for
    from hooklane.store.sqlite.writer_process import write_for_parent

    works, undone = works_for(Fanout())
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # requests make no circles
    write_for_parent(int(fd), path, int(busy_wait_ms), works, undone)


if __name__ == "__main__":
    main(*sys.argv[1:])
