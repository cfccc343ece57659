"""Dead rows of a shard, deleted by exact key in the shard's turn (design §3: only the owner deletes)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure_engine.core.draft import Draft
from perdure_engine.core.tasks import TimerRecord
from perdure_engine.history.run import Run
from perdure_engine.ports.rows import TaskRow
from perdure_engine.ports.store import Sweep

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

KEYS_MAX = 1_000  # of one kind in one statement
QUEUES_MAX = 4  # whose rows one statement deletes: it looks for each task in each of them
FULL_WAIT_S = 0.05  # between two full statements
KEPT_MAX = 200_000  # keys remembered; what is forgotten is found again at the next take-over


class Sweeping:
    __slots__ = (
        *("_fresh", "_inbox", "_schedules", "_shard", "_soon", "_task_count", "_tasks", "_timer"),
        *("_timers", "due"),
    )

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        # Queue and id of one after the other, as they came: each commit of each shard adds some, in cold memory where
        # shards are many. By queue only when a sweep takes them.
        self._fresh: list[int] = []
        self._tasks: dict[int, list[int]] = {}
        self._task_count = 0  # of both
        self._timers: list[tuple[int, int]] = []
        self._inbox: list[tuple[bytes, int]] = []
        self._schedules: list[tuple[bytes, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False  # the timer is the short one
        self.due = False  # the writer sends a sweep in the shard's next turn

    def publish(self, run: Run, draft: Draft) -> None:
        for record in draft.gone_tasks:
            if record.version:
                self._add_task(record.queue_no, record.task_id)
        if draft.gone_timers:
            self._add_timers(draft.gone_timers)
        for seq in range(draft.inbox_done_before + 1, run.state.inbox_done + 1):
            if len(self._inbox) < KEPT_MAX:
                self._inbox.append((run.state.run_id, seq))
        many = self._task_count >= KEYS_MAX
        if self._timer is None or (many and not self._soon):
            self._plan(soon=many)

    def publish_timers(self, gone: Iterable[TimerRecord]) -> None:
        """Timers of jobs."""
        self._add_timers(gone)
        self._plan(soon=len(self._timers) >= KEYS_MAX)

    def schedule_gone(self, namespace_id: bytes, schedule_id: str) -> None:
        self._schedules.append((namespace_id, schedule_id))
        self._plan(soon=False)

    def _add_timers(self, gone: Iterable[TimerRecord]) -> None:
        for timer in gone:
            if timer.version and len(self._timers) < KEPT_MAX:
                self._timers.append((timer.wake_us, timer.timer_id))

    def found(self, row: TaskRow) -> None:
        """A dead row of before the take-over."""
        self._add_task(row.queue_no, row.task_id)

    def _add_task(self, queue_no: int, task_id: int) -> None:
        if self._task_count < KEPT_MAX:
            self._fresh += (queue_no, task_id)
            self._task_count += 1

    def _sort_tasks(self) -> None:
        fresh, self._fresh = self._fresh, []
        for queue_no, task_id in zip(fresh[::2], fresh[1::2], strict=True):
            self._tasks.setdefault(queue_no, []).append(task_id)

    def take(self, batch_id: bytes) -> Sweep:
        """The next statement's keys."""
        tasks = self._take_tasks()
        behind, mark_us = self._shard.timers.mark_us, self._shard.timers.next_mark_us()
        # the range takes what lies before the mark
        self._timers = [key for key in self._timers if key[0] >= mark_us]
        timers, self._timers = self._timers[:KEYS_MAX], self._timers[KEYS_MAX:]
        inbox, self._inbox = self._inbox[:KEYS_MAX], self._inbox[KEYS_MAX:]
        timer_range = (behind, mark_us) if mark_us > behind else None
        sweep = Sweep(batch_id, self._shard.fence, tasks, [], timers, timer_range, inbox)
        # one that was made anew meanwhile stays
        gone = [key for key in self._schedules if self._shard.schedules.is_gone(*key)]
        sweep.schedules, self._schedules = gone[:KEYS_MAX], gone[KEYS_MAX:]
        return sweep

    def _take_tasks(self) -> list[tuple[int, int]]:
        """Of the queues with the most."""
        self._sort_tasks()
        taken: list[tuple[int, int]] = []
        largest = sorted(self._tasks, key=lambda queue_no: -len(self._tasks[queue_no]))
        for queue_no in largest[:QUEUES_MAX]:
            task_ids = self._tasks.pop(queue_no)
            room = KEYS_MAX - len(taken)
            taken += [(queue_no, task_id) for task_id in task_ids[:room]]
            if len(task_ids) > room:
                self._tasks[queue_no] = task_ids[room:]
                break
        self._task_count -= len(taken)
        return taken

    def give_back(self, sweep: Sweep) -> None:
        """It was not deleted (or may not have been): deleting it once more is harmless."""
        for queue_no, task_id in sweep.task_keys:
            self._add_task(queue_no, task_id)
        self._timers += sweep.timer_keys
        self._inbox += sweep.inbox_keys
        self._schedules += sweep.schedules

    def deleted(self, sweep: Sweep) -> None:
        if sweep.timer_range is not None:
            self._shard.move_mark(sweep.timer_range[1])
        for namespace_id, schedule_id in sweep.schedules:
            self._shard.schedules.swept(namespace_id, schedule_id)

    def done(self) -> None:
        self.due = False
        self._sort_tasks()
        many = max(self._task_count, len(self._timers)) >= KEYS_MAX
        self._plan(soon=many or len(self._tasks) > QUEUES_MAX)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, *, soon: bool) -> None:
        """The next sweep comes soon when a statement's worth has come together, else in a while.

        Said with every batch, so that a wait that has begun is not begun anew, only shortened.
        """
        if self._timer is not None and (self._soon or not soon):
            return
        waiting = self._task_count or self._timers or self._inbox or self._schedules
        if self.due or self._shard.closed or not waiting:
            return
        self.stop()
        self._soon = soon
        after = FULL_WAIT_S if soon else self._shard.rooms.config.sweep_every_s
        self._timer = asyncio.get_running_loop().call_later(after, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.due = True
        self._shard.chore_waits()
