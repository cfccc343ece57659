"""The jobs that are in a process's memory though they need not be: a reload would bring them back whole.

Open ones are about to be handed out; of those that have ended somebody may want to hear. Each kind has its bound, over
all shards together, and of each the one used longest ago goes first. Those that wait for their time stay until it has
come, and then are about to be handed out: what comes when there is no room for it does not stay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from perdure_engine.core.ids import shard_of_job
from perdure_engine.core.jobs.model import JobRun

# What a look at one costs that may not be forgotten yet is small; thousands of them in each step are not.
LOOKS_MAX = 1_000
JOB_BYTES = 1_500  # of one without input, with its timer
FAILURE_BYTES = 500


class Owner(Protocol):
    """The jobs of one shard."""

    def may_forget(self) -> bool: ...

    def forget(self, run: JobRun) -> None:
        """Unless memory holds more than the database."""
        ...


class JobCache:
    """`most`: open ones; a quarter of that of the others, and half of it in the reserves of queues.
    `waiting_bytes_max`: of those that wait for their time.
    """

    def __init__(self, most: int, waiting_bytes_max: int) -> None:
        self.owners: dict[int, Owner] = {}  # by shard
        # A plain dict would look through all that has left it whenever its first entry is asked for.
        self._open: OrderedDict[bytes, JobRun] = OrderedDict()
        self._over: OrderedDict[bytes, JobRun] = OrderedDict()
        self._open_max = most
        self._over_max = most // 4
        self._waiting: dict[bytes, int] = {}  # their bytes
        self._waiting_bytes = 0
        self.waiting_bytes_max = waiting_bytes_max
        self.reserved = 0
        self.reserved_max = most // 2

    def __len__(self) -> int:
        return len(self._open) + len(self._over) + len(self._waiting)

    def in_use(self, run: JobRun) -> None:
        """It has to be in memory from now on."""
        self._open.pop(run.job_id, None)
        self._wait_ends(run.job_id)

    def unused(self, run: JobRun) -> None:
        job_id = run.job_id
        self._wait_ends(job_id)
        if run.closed_us:
            self._open.pop(job_id, None)
            self._over[job_id] = run
        else:
            self._open[job_id] = run

    def wait(self, run: JobRun, *, soon: bool) -> bool:
        """Whether a job stays until its time has come. `soon`: it has all the room, others have half of it."""
        job_id = run.job_id
        if job_id in self._waiting:
            return True
        size = bytes_of(run)
        room = self.waiting_room if soon else self.waiting_room - self.waiting_bytes_max // 2
        if size > room:
            return False
        self._open.pop(job_id, None)
        self._waiting[job_id] = size
        self._waiting_bytes += size
        return True

    @property
    def waiting_room(self) -> int:
        """How many bytes more of those that wait for their time may be in memory."""
        return self.waiting_bytes_max - self._waiting_bytes

    def _wait_ends(self, job_id: bytes) -> None:
        self._waiting_bytes -= self._waiting.pop(job_id, 0)

    def gone(self, job_id: bytes) -> None:
        """It has left memory."""
        self._open.pop(job_id, None)
        self._over.pop(job_id, None)
        self._wait_ends(job_id)

    def shard_closed(self, shard_id: int, owner: Owner, job_ids: Iterable[bytes]) -> None:
        """All its jobs have left memory. Those that could be forgotten go when their turn comes."""
        if self.owners.get(shard_id) is owner:
            del self.owners[shard_id]
        for job_id in job_ids:
            self._wait_ends(job_id)

    def trim(self) -> None:
        """Forget what is too much. Once for all shards of a statement: one whose step is out forgets nothing."""
        self._trim(self._open, self._open_max)
        self._trim(self._over, self._over_max)

    def _trim(self, jobs: OrderedDict[bytes, JobRun], most: int) -> None:
        kept = 0
        while len(jobs) > most and kept < LOOKS_MAX:
            job_id, run = jobs.popitem(last=False)
            owner = self.owners.get(shard_of_job(job_id))
            if owner is not None and owner.may_forget():
                owner.forget(run)
            elif owner is not None:
                jobs[job_id] = run
                kept += 1


def bytes_of(run: JobRun) -> int:
    """About what a job takes in memory."""
    spec = run.spec
    inside = len(spec.input) + len(spec.header) + len(run.progress)
    return JOB_BYTES + inside + FAILURE_BYTES * len(run.failures)
