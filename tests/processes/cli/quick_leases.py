"""`hooklane …` whose workers hold leases of a second and a half, or of as many milliseconds as `LEASE_MS` says.

All else is the command line as it is: processes, pipes, signals. With `FAILING_WORKERS` no worker can start.
"""

import functools
import os
import sys

from hooklane.cli import process, worker, worker_processes
from hooklane.cli.main import run

LEASE_MS = int(os.environ.get("LEASE_MS", "1500"))
COMMAND = (sys.executable, "-m", "tests.processes.cli.quick_leases", "worker")

if __name__ == "__main__":
    if sys.argv[1] == "worker":
        process.Relay = functools.partial(process.Relay, lease_ms=LEASE_MS)  # type: ignore[misc,assignment]
        sys.exit(worker.main())
    if "LEASE_MS" in os.environ:
        process.Relay = functools.partial(process.Relay, lease_ms=LEASE_MS)  # type: ignore[misc,assignment]
    if "FAILING_WORKERS" in os.environ:
        COMMAND = (sys.executable, "-c", "raise SystemExit('no room on this host')")
    worker_processes.WorkerProcesses = functools.partial(worker_processes.WorkerProcesses, command=COMMAND)  # type: ignore[misc,assignment]
    sys.exit(run(sys.argv[1:]))
