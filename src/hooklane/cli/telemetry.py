"""How does a process log, and is it traced? As its settings say."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hooklane.config import Settings
from hooklane.telemetry.json_log import JsonFormatter

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def without_traceback(record: logging.LogRecord) -> bool:
    """A database that is away is told in one line. Its pool tells it at each try, with thirty lines of its own code."""
    if record.exc_info and (error := record.exc_info[1]) is not None:
        record.msg, record.args = f"{record.getMessage()}: {error}", None
        record.exc_info = record.exc_text = None
    return True


def set_up_telemetry(settings: Settings, level: str) -> Callable[[], None]:
    """Logs of *level* in the format that was asked for, and spans where they are; call the result at the end."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("asyncpg.pool").addFilter(without_traceback)
    if not settings.otel:
        return lambda: None
    from hooklane.telemetry.otel import export_over_http

    return export_over_http()
