"""How the code of a run is ended where it stands."""

from __future__ import annotations

from typing import Any

from perdure._replay.interrupts import WorkflowEvicted
from perdure._replay.loop import WorkflowTask

# How often code may answer to being closed with another await. What goes on for longer is left to
# the interpreter, which will say that it ignores being closed.
_CLOSES_MAX = 10


def close_task(task: WorkflowTask[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine: Any = task.get_coro()
    for _ in range(_CLOSES_MAX):
        try:
            # Not `close`: when a coroutine further in awaits once more, close() gives up the outer
            # ones and leaves that one behind, to run on when the garbage collector finds it.
            coroutine.throw(WorkflowEvicted())
        except BaseException:  # it has ended, by this or by what its cleaning up raised
            return
