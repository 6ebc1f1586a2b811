"""A wall clock that a test can set, for processes that it starts."""

import subprocess
from pathlib import Path

from tests.support.pace import scaled_s

SOURCE = Path(__file__).with_name("clock_shim.c")


class ClockShim:
    """`env` makes a process see a wall clock that is `set` by so many seconds from the true one."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock-offset"
        library = folder / "clock_shim.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True, timeout=scaled_s(60)
        )
        self.env = {"LD_PRELOAD": str(library), "CLOCK_SHIM": str(self._offset)}
        self.set(0)

    def set(self, seconds: int) -> None:
        new = self._offset.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(self._offset)
