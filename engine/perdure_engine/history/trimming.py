"""Which runs leave memory: none whose memory holds more than the database does.

An open run goes when it was used least of all that there is room for. One that has closed goes after some dozen others
have, of whichever shards: hardly anybody asks for it again, and the memory that it gives back is still in the
processor's caches when the next run needs some. With all of them kept until there were 10,000, W1 cost the engine 7 %
more CPU.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure_engine.history.run import Run
    from perdure_engine.history.shard import Shard


class LatelyClosed:
    """Those of a process that closed lately and are still in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: deque[tuple[Shard, Run]] = deque()  # oldest first

    def add(self, shard: Shard, run: Run) -> None:
        self._runs.append((shard, run))

    def trim(self) -> None:
        """Not while runs are being published: some of them may be next."""
        while len(self._runs) > self._most:
            shard, run = self._runs.popleft()
            if not run.pinned and shard.runs.get(run.state.run_id) is run:
                _forget(shard, run)


def trim(shard: Shard) -> None:
    for _ in range(len(shard.runs) - shard.runs_max):
        run_id, run = next(iter(shard.runs.items()))
        if run.pinned:
            shard.runs.move_to_end(run_id)
        else:
            _forget(shard, run)
    while len(shard.currents) > shard.runs_max * 2:
        shard.currents.popitem(last=False)


def _forget(shard: Shard, run: Run) -> None:
    run_id = run.state.run_id
    del shard.runs[run_id]
    started = run.state.folded.started
    if run.current.run_id == run_id:
        shard.currents.pop((started.namespace_id, started.workflow_id), None)
