"""Single keys of a person at a terminal, while a server runs in it: read without Enter, and the terminal put back."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


class HotKeys:
    """Calls what belongs to a key when it is pressed; of no effect without a terminal."""

    def __init__(self, actions: Mapping[str, Callable[[], None]]) -> None:
        self._actions = actions
        self._before: list[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @staticmethod
    def can_be_pressed() -> bool:
        """Whether this process has a terminal to itself: in the background it would be stopped for reading from it."""
        try:
            fd = sys.stdin.fileno()
            return sys.stdin.isatty() and sys.stderr.isatty() and os.tcgetpgrp(fd) == os.getpgrp()
        except (OSError, ValueError):
            return False

    def start(self) -> None:
        """Needs a running loop."""
        if not self.can_be_pressed():
            return
        import termios
        import tty

        fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(fd)
        tty.setcbreak(fd)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)

    def stop(self) -> None:
        """The terminal is as it was before."""
        if self._before is None or self._loop is None:
            return
        import termios

        self._loop.remove_reader(sys.stdin.fileno())
        with suppress(termios.error):  # the terminal may be gone, and then nothing has to be put back
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
        self._before = None

    def _read(self) -> None:
        try:
            pressed = os.read(sys.stdin.fileno(), 64)
        except OSError:
            pressed = b""
        if not pressed:  # the terminal is gone
            self.stop()
        for key in pressed.decode("ascii", "ignore").lower():
            if action := self._actions.get(key):
                action()
