"""A thread of its own beside the event loop: it heartbeats and watches while the loop cannot."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

# A heartbeat that failed is repeated after one tick, so several fit into a lease of 8 s; a
# deadlock is noticed at most one tick late.
TICK_S = 0.5


class GuardThread:
    """Calls each job once per tick, from `start` to `stop`. Jobs must not block for long.
    `tick_after_s` says how long it is to the next tick.

    Starting happens once; `stop` waits for the job that runs; stopping twice is fine.
    """

    def __init__(
        self, jobs: Sequence[Callable[[], None]], tick_after_s: Callable[[], float] = lambda: TICK_S
    ) -> None:
        self._jobs = jobs
        self._tick_after_s = tick_after_s
        self._stopping = threading.Event()
        # A daemon: an interpreter that ends without `stop` must not wait for it.
        self._thread = threading.Thread(target=self._run, name="perdure-guard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            for job in self._jobs:
                try:
                    job()
                except Exception:
                    # One defect must not end the heartbeats, and with them all leases.
                    logger.exception("a job of the guard thread failed")
            if self._stopping.wait(self._tick_after_s()):
                return
