"""The log: lines on standard error, for people or as JSON, without passwords."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor

from perdure_engine.server import dsn
from perdure_engine.server.config import LogConfig

# What these say at "info" is of their own starts and stops, which the node reports itself.
_TALKATIVE = ("uvicorn", "uvicorn.error", "alembic")


def set_up(config: LogConfig) -> None:
    """Send what structlog and the standard library log to standard error.

    Both take the same way, because the rooms use the standard library's loggers.
    """
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _scrub,
                _renderer(config),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _renderer(config: LogConfig) -> Processor:
    if config.format == "json":
        return structlog.processors.JSONRenderer(default=repr)
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _scrub(_logger: object, _method: str, event: EventDict) -> EventDict:
    """The last line of defence: nobody logs a dsn on purpose, but drivers quote what they were
    given, and exceptions quote drivers."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = dsn.scrubbed(value)
        elif isinstance(value, BaseException):
            event[key] = dsn.scrubbed(repr(value))
    return event
