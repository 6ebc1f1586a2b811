"""What has happened, as frozen values, and their sinks: `InboxLog`, `InboxMetrics`, `both`; loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.telemetry.inbox_log import InboxLog
    from hooklane.telemetry.inbox_metrics import InboxMetrics
    from hooklane.telemetry.sinks import both

_HOME_OF = {"InboxLog": "inbox_log", "InboxMetrics": "inbox_metrics", "both": "sinks"}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"hooklane.telemetry.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'hooklane.telemetry' has no attribute {name!r}")


__all__ = ["InboxLog", "InboxMetrics", "both"]
