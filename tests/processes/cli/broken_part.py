"""`hooklane` with a part that fails, as a process: `python -m tests.processes.cli.broken_part PART serve …`."""

import sys
from typing import Any, NoReturn

from hooklane.__main__ import main
from hooklane.core.engine import Engine
from hooklane.core.engine.outcomes import Outcomes
from hooklane.sender.publish_limits import PublishLimits
from hooklane.sender.retention import Housekeeping
from hooklane.sender.transport import wheel
from hooklane.server.live_stream import LiveStream
from hooklane.store.sqlite.group import Group

PARTS: dict[str, tuple[object, str]] = {
    "the engine": (Outcomes, "settled"),
    "the engine at its first load": (Engine, "_loaded"),
    "the page's live stream": (LiveStream, "run"),
    "housekeeping": (Housekeeping, "run"),
    "the check of disk space and quota": (PublishLimits, "run"),
    "the deadlines of deliveries": (wheel, "range"),  # which its turn alone uses
    "the thread that writes": (Group, "commit"),
}


def planted(*_: Any) -> NoReturn:
    raise ZeroDivisionError("planted")


if __name__ == "__main__":
    owner, name = PARTS[sys.argv.pop(1)]
    setattr(owner, name, planted)
    main()
