"""A receiver that forks while other threads are inside its sections, as on a busy machine.

Usage: python -m tests.promises.receiving.forking_while_at_work URL
"""

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tests.promises.receiving.kit import own_source, signed
from tests.support.pace import scaled_s

from hooklane.receiver import Inbox

LOCKS = type(threading.Lock())


def locks_of(thing: Any, seen: set[int]) -> Iterator[Any]:
    """The locks of *thing* and of all parts of it that are ours."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, LOCKS):
        yield thing
    elif isinstance(thing, threading.Event):
        yield thing._cond._lock
    elif isinstance(thing, dict | list | tuple):
        for each in thing.values() if isinstance(thing, dict) else thing:
            yield from locks_of(each, seen)
    elif type(thing).__module__.startswith("hooklane."):
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*getattr(thing, "__dict__", ()), *slots):
            yield from locks_of(getattr(thing, name, None), seen)


inbox = Inbox(sys.argv[1])
source = own_source(inbox, order="none")
source.on("*")(lambda event, tx: None)
inbox.start_worker()
assert inbox.receive(signed("before")).status == 200
inbox.stop()
held = list(locks_of(inbox, set()))
assert len(held) > 5, held
at_work = threading.Thread(target=lambda: [one.acquire() for one in held])
at_work.start()
at_work.join(scaled_s(20))
assert all(one.locked() for one in held)
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(scaled_s(20), exit=True)
    assert inbox.receive(signed("child")).status == 200
    inbox.ensure_worker()
    inbox.stop()
    inbox.run_once()
    inbox.stats()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child waits for who is not there"
os._exit(0)
