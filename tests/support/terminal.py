"""A command at a real terminal: what a person sees, and keys that a person presses."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.leftovers import entrust
from tests.support.pace import scaled_s
from tests.support.processes import until

WITHIN_S = 20.0
# The command gets a terminal of its own, as its controlling one; what is typed comes through our pipe.
# Ctrl-C means something there, also where the tests were started in the background, which ignores it.
_SPAWN = (
    "import os, pty, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
)
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs *command* to its end; `seen` is what it has written, without colours, `raw` with them."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SPAWN, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "160", **(env or {})},
            start_new_session=True,
        )
        entrust("+", "process", self._process.pid, int(signal.SIGKILL))
        self._bytes = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), 65_536):
            self._bytes += chunk

    @property
    def raw(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    @property
    def seen(self) -> str:
        return _COLOUR.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, pattern: str, *, within_s: float = WITHIN_S) -> re.Match[str]:
        """What fits *pattern* on the screen, once it is there."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self.seen, re.MULTILINE)

        try:
            return until(found, what=f"{pattern!r} on the screen", within_s=within_s)
        except Exception:
            print(f"--- the screen\n{self.seen}")
            raise

    def press(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def wait(self, *, within_s: float = WITHIN_S) -> int:
        """The exit code, once it has ended by itself."""
        code = self._process.wait(scaled_s(within_s))
        self._reader.join(scaled_s(5))
        entrust("-", "process", self._process.pid)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        entrust("-", "process", self._process.pid)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
