"""Waiting polls: what each still has room for, and whose turn it is."""

from __future__ import annotations

import asyncio
from itertools import islice

from perdure_engine.core.limits import BATCH_MESSAGE_BYTES_MAX, TASK_HISTORY_PAGE_BYTES_MAX
from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.history import Handed, HandedActivityTask, HandedJobTask
from perdure_engine.ports.matching import PollAnswer, PollRequest

# A poll that holds this much takes no more: one further task of the usual largest size still fits
# into a message. An estimate; the transport cuts what it really sends.
ANSWER_BYTES_FULL = BATCH_MESSAGE_BYTES_MAX - TASK_HISTORY_PAGE_BYTES_MAX
TASK_BYTES_OVERHEAD = 256


def estimated_bytes(handed: Handed) -> int:
    """About what the task weighs in a message, without walking through its events."""
    if isinstance(handed, HandedActivityTask):
        scheduled = handed.scheduled
        payload = len(scheduled.input) + len(scheduled.header) + len(handed.progress)
        return payload + TASK_BYTES_OVERHEAD
    if isinstance(handed, HandedJobTask):
        job = handed.job
        return len(job.spec.input) + len(job.spec.header) + len(job.progress) + TASK_BYTES_OVERHEAD
    events = len(handed.events)
    share = handed.history_bytes * events // max(handed.started_event_id, events, 1)
    return min(share, TASK_HISTORY_PAGE_BYTES_MAX) + TASK_BYTES_OVERHEAD


class Poll:
    """One waiting call. `answer` collects what was handed to it; `answered` ends it.

    `room` is indexed by kind and already counts starts that are under way.
    """

    __slots__ = ("answer", "answer_bytes", "answered", "request", "room", "timer", "worker_id")

    def __init__(self, request: PollRequest, answered: asyncio.Future[PollAnswer]) -> None:
        self.request = request
        self.worker_id = request.worker.worker_id
        self.answered = answered
        self.answer = PollAnswer([], [])
        self.answer_bytes = 0
        self.room = {
            TaskKind.WORKFLOW: request.max_workflow_tasks,
            TaskKind.ACTIVITY: request.max_activity_tasks,
        }
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return self.answer_bytes >= ANSWER_BYTES_FULL

    def has_room(self, kind: TaskKind) -> bool:
        return self.room[kind] > 0 and not self.is_full

    def collect(self, handed: Handed) -> None:
        if isinstance(handed, HandedJobTask):
            self.answer.job_tasks.append(handed)
        elif isinstance(handed, HandedActivityTask):
            self.answer.activity_tasks.append(handed)
        else:
            self.answer.workflow_tasks.append(handed)
        self.answer_bytes += estimated_bytes(handed)

    def empty_out(self) -> list[Handed]:
        """Take everything back out of the answer."""
        answer = self.answer
        handed = answer.tasks
        answer.workflow_tasks.clear()
        answer.activity_tasks.clear()
        answer.job_tasks.clear()
        return handed


class Waiters:
    """Polls with room for one kind, by worker. The worker served longest ago comes first.

    By worker, and not one row of polls: a task finds its turn in O(1) among a thousand polls, and a
    worker with many polls gets no larger share than one with few.
    """

    def __init__(self) -> None:
        self.by_worker: dict[bytes, dict[Poll, None]] = {}

    def __len__(self) -> int:
        """Distinct workers."""
        return len(self.by_worker)

    def add(self, poll: Poll) -> None:
        self.by_worker.setdefault(poll.worker_id, {})[poll] = None

    def discard(self, poll: Poll) -> None:
        polls = self.by_worker.get(poll.worker_id)
        if polls is None or poll not in polls:
            return
        del self.by_worker[poll.worker_id]
        del polls[poll]
        if polls:
            self.by_worker[poll.worker_id] = polls  # to the end: it had its turn

    def first(self, worker_id: bytes) -> Poll | None:
        """The poll of the worker that has waited longest."""
        polls = self.by_worker.get(worker_id)
        return next(iter(polls)) if polls else None

    def first_workers(self, count: int) -> list[bytes]:
        return list(islice(self.by_worker, count))
