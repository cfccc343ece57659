"""The jobs that are in a process's memory though they need not be: a reload would bring them back whole.

Open ones are about to be handed out; of those that have ended somebody may want to hear. Each kind has its bound, over
all shards together, and of each the one used longest ago goes first.
"""

from __future__ import annotations

from typing import Protocol

from perdure_engine.core.ids import shard_of_job
from perdure_engine.core.jobs.model import JobRun


class Owner(Protocol):
    """The jobs of one shard."""

    def may_forget(self) -> bool: ...

    def forget(self, run: JobRun) -> None:
        """Unless memory holds more than the database."""
        ...


class JobCache:
    """`most`: open ones; a quarter of that of the others, and half of it in the reserves of queues."""

    def __init__(self, most: int) -> None:
        self.owners: dict[int, Owner] = {}  # by shard
        self._open: dict[bytes, JobRun] = {}
        self._over: dict[bytes, JobRun] = {}
        self._open_max = most
        self._over_max = most // 4
        self.reserved = 0
        self.reserved_max = most // 2

    def __len__(self) -> int:
        return len(self._open) + len(self._over)

    def in_use(self, run: JobRun) -> None:
        """It has to be in memory from now on."""
        self._open.pop(run.job_id, None)

    def unused(self, run: JobRun) -> None:
        if run.closed_us:
            self._open.pop(run.job_id, None)
            self._over[run.job_id] = run
        else:
            self._open[run.job_id] = run

    def gone(self, job_id: bytes) -> None:
        """It has left memory."""
        self._open.pop(job_id, None)
        self._over.pop(job_id, None)

    def trim(self) -> None:
        self._trim(self._open, self._open_max)
        self._trim(self._over, self._over_max)

    def _trim(self, jobs: dict[bytes, JobRun], most: int) -> None:
        for _ in range(len(jobs) - most):
            job_id = next(iter(jobs))
            run = jobs.pop(job_id)
            owner = self.owners.get(shard_of_job(job_id))
            if owner is not None and owner.may_forget():
                owner.forget(run)
            elif owner is not None:
                jobs[job_id] = run
