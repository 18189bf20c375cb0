"""The operator's log lines: those written while a job is worked on carry its namespace and name.

The job is kept per task, since passes over many jobs go on at once.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from dartes import logs
from dartes_operator.kinds import Key

_job: ContextVar[Key | None] = ContextVar("job", default=None)

# They tell of every request and every event; what they warn of is worth a line.
QUIET = ("kopf", "kopf.objects", "aiohttp", "asyncio", "client")


def set_up(level: int) -> None:
    """Log like every other process, and name the job that is worked on."""
    fields = logs.set_up("operator", level)
    for handler in logging.getLogger().handlers:
        formatter = handler.formatter
        if isinstance(formatter, logs.JsonFormatter):
            handler.setFormatter(logs.JsonFormatter(_JobFields(fields.current())))
        elif formatter is not None:
            handler.setFormatter(_JobFormatter(formatter))
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


@contextmanager
def speak_of(key: Key) -> Iterator[None]:
    """Name this job in all lines of the block."""
    token = _job.set(key)
    try:
        yield
    finally:
        _job.reset(token)


class _JobFields(logs.LogFields):
    def current(self) -> Mapping[str, str | int]:
        key = _job.get()
        if key is None:
            return super().current()
        return {**super().current(), "namespace": key.namespace, "job": key.name}


class _JobFormatter(logging.Formatter):
    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        key = _job.get()
        line = self._inner.format(record)
        return line if key is None else f"{line} [{key.namespace}/{key.name}]"
