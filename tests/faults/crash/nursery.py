"""Starts `hooklane serve` again and again without paying for its imports each time: a process that forks ready ones.

`python -m tests.faults.crash.nursery` reads one JSON line per child from stdin, `{"options": {...}, "env": {...},
"log": path, "host": [name, namespace], "lease_ms": N, "commit_wait_s": N}`, and answers with the pid of the child. That
does what `hooklane serve` does, in a process of its own; only the reading of modules and of the command line lies
behind it. Ends when stdin does.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import traceback
from typing import Any

import uvicorn  # noqa: F401
import uvloop  # noqa: F401
from tests.support.hosts import enter

from hooklane.cli import process
from hooklane.cli.serve import serve
from hooklane.errors import HooklaneError
from hooklane.sender.relay import Relay
from hooklane.store.open import outbox_store  # noqa: F401
from hooklane.store.postgres import commits
from hooklane.store.sqlite.outbox import store  # noqa: F401


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who was killed need not be waited for
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(wanted)
        print(pid, flush=True)


def _serve(wanted: dict[str, Any]) -> None:
    os.setsid()
    null, log = os.open(os.devnull, os.O_RDONLY), os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for here, there in ((null, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    os.environ.update(wanted["env"])
    if "host" in wanted:
        enter(*wanted["host"])
    if "lease_ms" in wanted:
        process.Relay = functools.partial(Relay, lease_ms=wanted["lease_ms"])  # type: ignore[misc,assignment]
    if "commit_wait_s" in wanted:
        commits.COMMIT_WAIT_S = wanted["commit_wait_s"]
    code = 0
    try:
        serve(**wanted["options"])
    except HooklaneError as error:
        print(f"hooklane: {error}", file=sys.stderr)
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
