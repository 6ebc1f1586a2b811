"""A receiver in a process of its own, that dies where it is told to.

Usage: python -m tests.promises.receiving.crashing URL MODE POINT|none COPIES EVENTS [GO]
(events are evt_0 … evt_{EVENTS-1})
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests.promises.receiving.kit import own_source, signed
from tests.support.processes import until

from hooklane.receiver import Event, Inbox

URL, MODE, POINT = sys.argv[1:4]
COPIES, EVENTS = int(sys.argv[4]), int(sys.argv[5])
armed = threading.Event()


def die(point: str) -> None:
    if armed.is_set() and point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def effect(event: Event, tx: Any) -> None:
    if URL.startswith(("redis:", "dynamodb:")):
        from tests.stores.inbox.worlds import write_effect

        write_effect(URL, event, tx)
        return
    mark = "?" if URL.startswith("sqlite") else "%s"
    tx.execute(f"INSERT INTO effects (event_id) VALUES ({mark})", (event.id,))


inbox = Inbox(URL, MODE, failpoint=die, lease_ms=int(os.environ.get("LEASE_MS", "1")))  # type: ignore[arg-type]
own_source(inbox, order="none").on("*")(effect)
print("ready", flush=True)
if len(sys.argv) > 6:  # a crowd starts together: when this file is there
    until(Path(sys.argv[6]).exists, what="the start")
if MODE == "inline":
    armed.set()


def deliver() -> None:
    for number in range(EVENTS):
        request = signed(f"evt_{number}")
        until(lambda request=request: inbox.receive(request).status == 200, what="an event that is taken")  # type: ignore[misc]


threads = [threading.Thread(target=deliver) for _ in range(COPIES)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
armed.set()
until(lambda: inbox.run_once() == 0, what="nothing left to do")
print("done", flush=True)
inbox.close()
