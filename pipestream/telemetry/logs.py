"""Logs of servers and jobs: lines for people, or JSON objects for programs that collect them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pipestream.settings import Settings

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record of the standard library has; anything else was given as ``extra``.
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields given as ``extra``, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
        }
        values |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str, ensure_ascii=False)


def setup_logging(settings: Settings, level: int = logging.INFO) -> None:
    """Send the logs of this process to stderr, in the format of the settings. Replaces an earlier set-up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
