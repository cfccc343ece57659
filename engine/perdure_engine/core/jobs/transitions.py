"""The legal moves of a job run, in one table.

    PENDING ──▶ IN_PROGRESS ──▶ COMPLETED
       │  ▲          │  │  │
       │  └──────────┘  │  ├──▶ FAILED ──▶ PENDING (redriven)
       │  its worker    │  │
       │  is gone       │  └──▶ RETRY ──▶ IN_PROGRESS
       │                ▼
       │             POISONED ──▶ IN_PROGRESS (in the surgical pool)
       │              │    ▲ └──▶ PENDING, RETRY (taken back, redriven)
       │              ▼    │ resumed
       │             SUSPENDED ──▶ PENDING (redriven)
       ├──▶ SKIPPED
       └──▶ CANCELLED, as from every open one

A start is written down only when the attempt runs for a while, so an attempt may end without its job ever having been
IN_PROGRESS: what may come after IN_PROGRESS may come after what was before it.
"""

from __future__ import annotations

from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.model import JobStatus as S
from perdure_engine.core.transitions import IllegalMove

# And POISONED, but for one that is it already.
ENDS_OF_ATTEMPTS = (S.COMPLETED, S.RETRY, S.FAILED, S.CANCELLED, S.SUSPENDED)

MOVES: dict[S, frozenset[S]] = {
    S.PENDING: frozenset((S.IN_PROGRESS, *ENDS_OF_ATTEMPTS, S.POISONED, S.SKIPPED)),
    S.RETRY: frozenset((S.IN_PROGRESS, *ENDS_OF_ATTEMPTS, S.POISONED)),
    # PENDING and RETRY: its worker is gone, and the same attempt is ready again
    S.IN_PROGRESS: frozenset((*ENDS_OF_ATTEMPTS, S.POISONED, S.PENDING)),
    S.POISONED: frozenset((S.IN_PROGRESS, *ENDS_OF_ATTEMPTS, S.PENDING)),
    S.FAILED: frozenset((S.PENDING,)),
    S.COMPLETED: frozenset(),
    S.CANCELLED: frozenset(),
    S.SKIPPED: frozenset(),
    S.SUSPENDED: frozenset((S.POISONED, S.PENDING, S.CANCELLED)),
}


def move(run: JobRun, to: S) -> None:
    """Give the job its new status. Raises IllegalMove, before anything changes, when the table has no such move."""
    if to not in MOVES[run.status]:
        raise IllegalMove(f"a job that is {run.status.name} does not become {to.name}")
    run.status = to
