"""The store's door to jobs and schedules. What a shard writes of them travels in `ports.store.Batch`.

Every method may raise `ports.store.StoreUnavailable`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.rows import (
    JobBatchRow,
    JobKeyRow,
    JobRunRow,
    ScheduleRow,
    ScheduleSlotRow,
)

LISTED_SPEC_BYTES_MAX = 4_096
"""Most specs are far below; those above are mostly the job's input, which lists do not show."""

LISTED_STATES_BYTES_MAX = 4 * 1024 * 1024
"""Of the jobs of a page but the last: a state holds up to a hundred failures with their traces."""

JOBS_LOOKED_AT = 512
"""In each scan of a list, while it looks for what no index knows: some milliseconds of the database."""


class JobFilter(msgspec.Struct, frozen=True):
    """All conditions hold together; empty or 0 means "any". `scheduled_us` from inclusive, to exclusive."""

    namespace_id: bytes
    user_id: str = ""
    statuses: tuple[int, ...] = ()
    task_name: str = ""
    queue: str = ""
    schedule_id: str = ""
    batch_id: str = ""
    from_us: int = 0
    to_us: int = 0


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs of a list, and the (scheduled, job id) up to which all were looked at; None: there are no further."""

    rows: list[JobRunRow]
    end: tuple[int, bytes] | None


class JobStore(Protocol):
    """What shards and lists read of jobs. Rows come whole, as stored."""

    async def load_jobs(self, shard_id: int, job_ids: list[bytes]) -> list[JobRunRow]:
        """The rows that exist, in any order."""
        ...

    async def load_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[JobRunRow]:
        """Of one queue, task_id above `after_task_id`, in its order."""
        ...

    async def load_ready_jobs_of_shard(
        self, shard_id: int, after: tuple[int, int], limit: int
    ) -> list[JobRunRow]:
        """Past (queue_no, task_id), in that order: what a new owner reads once, in pages."""
        ...

    async def count_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, before_task_id: int
    ) -> int:
        """Of one queue, task_id between the two."""
        ...

    async def load_started_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> list[JobRunRow]:
        """IN_PROGRESS, by job id."""
        ...

    async def load_keyed_jobs(
        self, shard_id: int, namespace_id: bytes, concurrency_key: str, limit: int
    ) -> list[JobRunRow]:
        """Jobs of a concurrency key: first those that hold a place of it (ready or in progress), by (created, job id);
        then those that wait for one (task id below 0), the longest wait first. No others, however many are not due."""
        ...

    async def load_job_keys(self, keys: list[tuple[int, bytes, int, str]]) -> list[JobKeyRow]:
        """The rows that exist of (shard_id, namespace_id, kind, key), in any order."""
        ...

    async def load_job_batch(
        self, shard_id: int, namespace_id: bytes, batch_id: str
    ) -> JobBatchRow | None: ...

    async def list_jobs(
        self,
        where: JobFilter,
        past: tuple[int, bytes] | None,
        limit: int,
        *,
        oldest_first: bool = False,
        look: int = JOBS_LOOKED_AT,
    ) -> JobPage:
        """By (scheduled, job id), strictly past the given one. `result` comes empty, and `spec` when it is over
        LISTED_SPEC_BYTES_MAX: a page of thousand rows must not weigh gigabytes.

        It may have fewer jobs than `limit`, and none, though more follow: when they are heavy, and when it has looked
        at `look` jobs (of some scans each) for what no index knows: a task, a queue, a second owner."""
        ...

    async def count_jobs(self, where: JobFilter) -> list[tuple[int, int]]:
        """How many have each status, in its order; none that no job has."""
        ...


class ScheduleStore(Protocol):
    async def load_schedules(
        self, shard_id: int, after: tuple[bytes, str] | None, limit: int
    ) -> list[ScheduleRow]:
        """Of one shard, by (namespace_id, schedule_id): what a new owner reads once, in pages."""
        ...

    async def load_schedule(
        self, shard_id: int, namespace_id: bytes, schedule_id: str
    ) -> ScheduleRow | None: ...

    async def list_schedules(
        self, namespace_id: bytes, id_prefix: str, user_id: str, after_id: str, limit: int
    ) -> list[ScheduleRow]:
        """Of all shards, by id."""
        ...

    async def list_slots(
        self,
        shard_id: int,
        namespace_id: bytes,
        schedule_id: str,
        outcomes: tuple[int, ...],
        from_us: int,
        to_us: int,
        past: tuple[int, int] | None,
        limit: int,
    ) -> list[ScheduleSlotRow]:
        """Newest first by (nominal, origin), strictly past the given one; `to_us` 0: no end."""
        ...


class ClosedJob(msgspec.Struct, frozen=True):
    """What retention needs to know of a job run that has ended. Its unique key stands in `spec`, which is empty when it
    is over LISTED_SPEC_BYTES_MAX: a page of thousand must not weigh gigabytes."""

    job_id: bytes
    namespace_id: bytes
    closed_us: int
    spec: bytes
    row_bytes: int  # of its specification, state and result


class ClosedJobPage(msgspec.Struct, frozen=True):
    """The ended job runs among some rows that follow each other, and where the next page begins."""

    jobs: list[ClosedJob]
    last_job_id: bytes | None  # None: there are no further rows


class JobRetentionStore(Protocol):
    """What retention reads of jobs and schedules, each by key in pages of rows: what is over its time is for the
    reader to see."""

    async def load_closed_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> ClosedJobPage:
        """Look at up to `limit` job runs of the shard past a job id, in the order of their ids."""
        ...

    async def load_job_batches(
        self, shard_id: int, after: tuple[bytes, str], limit: int
    ) -> list[JobBatchRow]:
        """Of one shard, past (namespace_id, batch_id), in that order."""
        ...

    async def load_slots(
        self, shard_id: int, after: tuple[bytes, str, int, int], limit: int
    ) -> list[ScheduleSlotRow]:
        """Of one shard, past (namespace_id, schedule_id, nominal_us, origin), in that order."""
        ...


class QueueLimitRow(msgspec.Struct, frozen=True):
    """How many jobs of a queue may start in a second, over the whole installation. `rate_per_s` 0: any."""

    namespace_id: bytes
    queue: str
    rate_per_s: float
    conflict_token: int  # 0: not saved yet


class QueueLimitStore(Protocol):
    async def list_queue_limits(self) -> list[QueueLimitRow]:
        """Of all namespaces, in any order."""
        ...

    async def put_queue_limit(self, row: QueueLimitRow, audited: AuditRow | None = None) -> bool:
        """As `DeploymentStore.put_deployment`."""
        ...
