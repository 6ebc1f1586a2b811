"""A receiver that forks while its threads receive. Usage: python -m tests.promises.receiving.forking_in_a_crowd URL"""

import faulthandler
import itertools
import os
import sys
import threading
from typing import Any

from tests.promises.receiving.kit import own_source, signed
from tests.support.pace import scaled_s

from hooklane.receiver import Event, Inbox

URL, FORKS = sys.argv[1], 8
RECEIVED_MAX = 20_000
TRIES = 10
inbox = Inbox(URL, "inline")
numbers = itertools.count()
stopping = threading.Event()
begun = threading.Semaphore(0)


@own_source(inbox, order="none").on("*")
def effect(event: Event, tx: Any) -> None:
    tx.execute("INSERT INTO effects (event_id) VALUES (?)", (event.id,))


def receive() -> None:
    for _ in range(RECEIVED_MAX):
        if stopping.is_set():
            return
        assert inbox.receive(signed(f"parent_{next(numbers)}")).status == 200
        begun.release()


def receive_in_child(fork: int) -> None:
    def one(number: int) -> None:
        for _ in range(TRIES):
            status = inbox.receive(signed(f"child_{fork}_{number}")).status
            if status != 503:  # the parent's threads held the file for too long: come again, as a sender does
                break
        statuses.append(status)

    statuses: list[int] = []
    first = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join()
    os._exit(0 if statuses == [200] * 4 else 1)


threads = [threading.Thread(target=receive) for _ in range(4)]
for thread in threads:
    thread.start()
try:
    for fork in range(FORKS):
        for _ in range(20):
            assert begun.acquire(timeout=scaled_s(60)), "the threads received nothing"
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(scaled_s(30), exit=True)  # a child that hangs is seen to fail
            receive_in_child(fork)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "the child failed"
finally:
    stopping.set()
for thread in threads:
    thread.join()
inbox.close()
