"""A receiver on DynamoDB that forks after it was used, as gunicorn's preload does; then all of them receive at once.

Usage: python -m tests.stores.inbox.forking_dynamodb URL
"""

import faulthandler
import os
import sys

from tests.promises.receiving.kit import outcome, own_source, signed
from tests.stores.inbox.worlds import write_effect
from tests.support.pace import scaled_s

from hooklane.receiver import Inbox

URL, ROUNDS, CHILDREN, EVENTS = sys.argv[1], 5, 4, 3
inbox = Inbox(URL, "inline")
own_source(inbox, order="none").on("*", name="effect")(lambda event, tx: write_effect(URL, event, tx))


def receive(who: str, events: int = EVENTS) -> bool:
    return all(outcome(inbox.receive(signed(f"{who}_{number}"))) == "applied" for number in range(events))


for turn in range(ROUNDS):
    assert receive(f"before_{turn}", 1), "the parent alone"
    begin, end = os.pipe()
    children = []
    for child in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(scaled_s(60), exit=True)
            os.close(end)
            os.read(begin, 1)  # until the parent closes its end: all at the same moment
            os._exit(0 if receive(f"child_{turn}_{child}") else 1)
        children.append(pid)
    os.close(begin)
    os.close(end)
    assert receive(f"parent_{turn}"), "the parent read what was meant for a child"
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * CHILDREN
inbox.close()
