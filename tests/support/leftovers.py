"""What must not outlive this process: its children and its folders, entrusted to a side process (see reaper.py)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_lock = threading.Lock()
_reaper: subprocess.Popen[bytes] | None = None
_owner: int | None = None


def entrust(*duty: str | int) -> None:
    """Tells the reaper of this process, started with the first duty, what to end if this process cannot."""
    global _reaper, _owner
    with _lock:
        if _reaper is None or _owner != os.getpid():  # after a fork the reaper is the parent's
            _reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            _owner = os.getpid()
        assert _reaper.stdin is not None
        _reaper.stdin.write(json.dumps(duty).encode() + b"\n")
        _reaper.stdin.flush()


@contextmanager
def scratch_folder(*, in_memory: bool) -> Iterator[Path]:
    """A new folder that is deleted at the end, also after `kill -9` of this process; *in_memory* where that exists."""
    shm = Path("/dev/shm")
    parent = shm if in_memory and os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="hooklane-test-", dir=parent))
    entrust("+", "folder", str(folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        entrust("-", "folder", str(folder))
