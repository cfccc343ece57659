"""Matching's door: saved tasks meet waiting polls. A cache: it may be lost at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from perdure_engine.core.tasks import TaskKind

if TYPE_CHECKING:
    from perdure_engine.ports.history import (
        Handed,
        HandedActivityTask,
        HandedJobTask,
        HandedWorkflowTask,
        WorkerRef,
    )


class TaskOffer(msgspec.Struct, frozen=True, gc=False):
    """A saved, ready task. May be doubled harmlessly, because the shard decides the start.

    A query-only offer has `task_id` 0 and `query_no` > 0. `sticky_worker_id` b"" means any worker.
    """

    shard_id: int
    namespace_id: bytes
    kind: TaskKind
    queue: str
    queue_no: int
    task_id: int
    run_id: bytes
    scheduled_event_id: int
    priority: int
    sticky_worker_id: bytes
    ready_us: int
    query_no: int = 0
    version: str = ""  # whose polls alone get it; "": those that name no version
    pinned: str = ""  # the version that the run is pinned to
    pool: str = ""  # of workers, whose polls alone get it


class PollRequest(msgspec.Struct, frozen=True):
    namespace_id: bytes
    queue: str
    worker: WorkerRef
    max_workflow_tasks: int
    max_activity_tasks: int  # activities and jobs together
    timeout_s: float


class PollAnswer(msgspec.Struct):
    workflow_tasks: list[HandedWorkflowTask]
    activity_tasks: list[HandedActivityTask]
    job_tasks: list[HandedJobTask] = []

    @property
    def tasks(self) -> list[Handed]:
        return [*self.workflow_tasks, *self.activity_tasks, *self.job_tasks]

    @property
    def is_empty(self) -> bool:
        return not (self.workflow_tasks or self.activity_tasks or self.job_tasks)


class Taker(Protocol):
    def take(self) -> PollAnswer:
        """What waits for the worker now; nothing when that is forgotten meanwhile, or after `leave`.

        Whoever gets the answer owns its tasks.
        """
        ...

    def leave(self) -> None:
        """Take nothing. Leaving twice, or after `take`, is fine."""
        ...


class QueueInfo(msgspec.Struct, frozen=True):
    backlog_count: int
    oldest_ready_us: int  # 0: none
    pollers: int


class Matching(Protocol):
    def offer(self, offers: list[TaskOffer]) -> None: ...

    def withdraw(self, shard_id: int) -> None:
        """The shard is no longer this node's: forget its offers."""
        ...

    async def poll(self, request: PollRequest) -> PollAnswer: ...

    def announce(self, request: PollRequest) -> Taker:
        """A call of the worker is under way that will take tasks when it ends.

        `timeout_s` is not read. Whoever announces must `take` or `leave`.
        """
        ...

    def has_pollers(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str = "", pool: str = ""
    ) -> bool:
        """Whether a worker of the version and the pool polled this queue within the last poll time-out or holds tasks
        of it."""
        ...

    def forget_worker(self, worker_id: bytes) -> None:
        """Its sticky tasks go to any worker at once; its polls end empty."""
        ...

    def describe(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str | None = None
    ) -> QueueInfo:
        """Of one version ("": workers that name none), or (None) of all together; in the normal pool."""
        ...
