"""Ends what a test process left behind when that process was killed: a side process that outlives it by a moment.

Run as a script. Each line of standard input adds or removes a duty (`+ pid signal`, `- pid`, `+ folder`, `- folder`).
The end of the input means that the owner is gone, however it went (also `kill -9`), and the duties are carried out.
This is a process and not `PR_SET_PDEATHSIG`, which fires when the *thread* that started a child ends.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time

GRACE_S = 3.0


def main() -> None:
    signals: dict[int, int] = {}
    folders: dict[str, None] = {}
    for line in sys.stdin:
        verb, kind, *rest = json.loads(line)
        match verb, kind:
            case "+", "process":
                signals[rest[0]] = rest[1]
            case "-", "process":
                signals.pop(rest[0], None)
            case "+", "folder":
                folders[rest[0]] = None
            case "-", "folder":
                folders.pop(rest[0], None)

    for pid, first_signal in signals.items():
        _signal_group(pid, signal.SIGCONT)  # a frozen process would not see the next one
        _signal_group(pid, first_signal)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and any(_signal_group(pid, 0) for pid in signals):
        time.sleep(0.02)
    for pid in signals:
        _signal_group(pid, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _signal_group(pid: int, number: int) -> bool:
    """Whether the group that *pid* leads still had a member to get the signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return True
    return False


if __name__ == "__main__":
    main()
