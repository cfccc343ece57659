"""Which runs leave memory: none whose memory holds more than the database does.

An open run goes when it was used least of all that there is room for. One that has closed goes after some dozen others
have: hardly anybody asks for it again, and the memory that it gives back is still in the processor's caches when the
next run needs some. With all of them kept until there were 10,000, W1 cost the engine 7 % more CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure_engine.history.run import Run
    from perdure_engine.history.shard import Shard


def trim(shard: Shard) -> None:
    while len(shard.closed_runs) > shard.closed_runs_max:
        run_id = shard.closed_runs.popleft()
        closed = shard.runs.get(run_id)
        if closed is not None and not closed.pinned:
            _forget(shard, run_id, closed)
    for _ in range(len(shard.runs) - shard.runs_max):
        run_id, run = next(iter(shard.runs.items()))
        if run.pinned:
            shard.runs.move_to_end(run_id)
        else:
            _forget(shard, run_id, run)
    while len(shard.currents) > shard.runs_max * 2:
        shard.currents.popitem(last=False)


def _forget(shard: Shard, run_id: bytes, run: Run) -> None:
    del shard.runs[run_id]
    started = run.state.folded.started
    if run.current.run_id == run_id:
        shard.currents.pop((started.namespace_id, started.workflow_id), None)
