"""Loggers that say who speaks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any


class InfoLoggerAdapter(logging.LoggerAdapter[logging.Logger]):
    """`process` may put something behind the message: it is text, whatever ids are in it."""

    def __init__(self, logger: logging.Logger, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(logger, extra or {})

    @property
    def base_logger(self) -> logging.Logger:
        """To give handlers and filters to; it speaks whoever asks."""
        return self.logger

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        text, changed = self.process(msg, kwargs)
        if args and text is not msg:
            # What was added is no format: a workflow id may have a % in it.
            own = str(msg)
            text = own + text[len(own) :].replace("%", "%%")
        changed["stacklevel"] = changed.get("stacklevel", 1) + 1
        self.logger.log(level, text, *args, **changed)

    def with_info(self, kwargs: Mapping[str, Any], added: Mapping[str, Any]) -> Mapping[str, Any]:
        """The `extra` of a record: the adapter's, the caller's, and what is added."""
        return {**(self.extra or {}), **(kwargs.get("extra") or {}), **added}
