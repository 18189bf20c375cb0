"""How every process logs: one line per event on standard error, for people or, in a pod, as JSON.

It knows how a line looks, not what is worth one. `DARTES_LOG_FORMAT=json` asks for JSON.
"""

import datetime
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import Final

FORMAT_VARIABLE: Final = "DARTES_LOG_FORMAT"

_POD_FIELDS: Final = (("job", "DARTES_JOB"), ("pod", "DARTES_POD"), ("namespace", "DARTES_NAMESPACE"))


class LogFields:
    """What every JSON line of this process says besides its event; fields are added as they become known."""

    def __init__(self, fields: Mapping[str, str | int]) -> None:
        self._fields = dict(fields)

    def note(self, **fields: str | int) -> None:
        """Add fields, or change them, for all later lines. Lines for people don't show them."""
        self._fields = {**self._fields, **fields}  # a new one, since other threads may be reading the old

    def current(self) -> Mapping[str, str | int]:
        """The fields as they are now."""
        return self._fields


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, the fields, an exception."""

    def __init__(self, fields: LogFields) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, str | int] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields.current(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def wants_json() -> bool:
    """Whether this process was asked to log JSON."""
    return os.environ.get(FORMAT_VARIABLE, "").lower() == "json"


def set_up(role: str, level: int = logging.INFO) -> LogFields:
    """Send log records to standard error; returns the fields that JSON lines carry.

    Lines for people are prefixed by the role (`coordinator`, `worker-0`). In JSON, warnings of libraries and
    errors that escape a thread become lines too, so that nothing but JSON is written.
    """
    known = {name: os.environ[variable] for name, variable in _POD_FIELDS if variable in os.environ}
    fields = LogFields({"role": role, **known})
    handler = logging.StreamHandler(sys.stderr)
    if wants_json():
        handler.setFormatter(JsonFormatter(fields))
        logging.captureWarnings(True)
        threading.excepthook = _log_thread_error
    else:
        handler.setFormatter(
            logging.Formatter(f"%(asctime)s %(levelname)s {role} %(message)s", datefmt="%H:%M:%S")
        )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    return fields


def _log_thread_error(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        name = "a thread" if what.thread is None else what.thread.name
        logging.getLogger(__name__).error("%s ended with an error", name, exc_info=what.exc_value)
