"""Where the ends of calls are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from perdure_engine.ports.metrics import Metrics


class Measured(NamedTuple):
    """Of one method. `now_s` is the event loop's time."""

    metrics: Metrics
    operation: str
    now_s: Callable[[], float]

    def ended(self, code: str, began_s: float) -> None:
        self.metrics.requests.inc(self.operation, code)
        self.metrics.request_seconds.observe(self.now_s() - began_s, self.operation)
