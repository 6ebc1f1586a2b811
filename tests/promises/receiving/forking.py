"""A receiver that forks after it was used, as gunicorn's preload does.

Usage: python -m tests.promises.receiving.forking URL
"""

import os
import sys
from typing import Any

from tests.promises.receiving.kit import own_source, signed

from hooklane.receiver import Event, Inbox

URL = sys.argv[1]


def effect(event: Event, tx: Any) -> None:
    mark = "?" if URL.startswith("sqlite") else "%s"
    tx.execute(f"INSERT INTO effects (event_id) VALUES ({mark})", (event.id,))


inbox = Inbox(URL)
own_source(inbox, order="none").on("*")(effect)
inbox.start_worker()
assert inbox.receive(signed("before")).status == 200
child = os.fork()
if child == 0:
    assert not inbox.worker.is_running, "a fork has none of its parent's threads"
    assert inbox.receive(signed("child")).status == 200
    inbox.ensure_worker()
    assert inbox.worker.is_running
    inbox.stop()
    inbox.run_once()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, "the child failed"
assert inbox.receive(signed("parent")).status == 200
inbox.stop()
inbox.run_once()
inbox.close()
