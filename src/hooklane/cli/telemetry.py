"""How does a process log, and is it traced? As its settings say."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hooklane.config import Settings
from hooklane.telemetry.json_log import JsonFormatter

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_telemetry(settings: Settings, level: str) -> Callable[[], None]:
    """Logs of *level* in the format that was asked for, and spans where they are; call the result at the end."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    if not settings.otel:
        return lambda: None
    from hooklane.telemetry.otel import export_over_http

    return export_over_http()
