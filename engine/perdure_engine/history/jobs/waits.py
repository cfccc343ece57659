"""Calls that wait for jobs to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure_engine.core.jobs.decide.describe import ended
from perdure_engine.core.jobs.intents import WaitJobs
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.replies import EndedJob, JobsEnded
from perdure_engine.history.work import Item

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs


class JobWaits:
    """A wait is answered once, with all of its jobs that have ended by then."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waiting: dict[bytes, dict[Item, None]] = {}  # by job

    def without_turn(self, item: Item) -> bool:
        """A wait for jobs that are all open takes no turn: nothing is decided, and nothing said. Should one of them be
        in a statement that comes to nothing, it is waited for all the same. False: it takes its turn."""
        intent = item.intent
        assert isinstance(intent, WaitJobs)
        jobs = self._jobs.memory.jobs
        for job_id in intent.job_ids:
            run = jobs.get(job_id)
            if run is None or not run.version or not run.open:
                return False
            if run.namespace_id != intent.namespace_id:
                return False
        if not intent.job_ids:
            return False
        self._wait(item, intent)
        return True

    def take_turn(self, item: Item) -> None:
        """What is in memory of the jobs is saved; those that are not there are nobody's."""
        intent = item.intent
        assert isinstance(intent, WaitJobs)
        jobs = self._jobs.memory.jobs
        found: list[EndedJob] = []
        for job_id in intent.job_ids:
            run = jobs.get(job_id)
            if run is None or run.namespace_id != intent.namespace_id:
                found.append(EndedJob(job_id, None))
            elif not run.open:
                found.append(ended(run))
        if found or not intent.job_ids:
            item.answer(JobsEnded(found))
        else:
            self._wait(item, intent)

    def _wait(self, item: Item, intent: WaitJobs) -> None:
        if item.future is None or item.future.done():
            return
        for job_id in intent.job_ids:
            waiting = self._waiting.get(job_id)
            if waiting is None:
                waiting = self._waiting[job_id] = {}
            waiting[item] = None
        item.future.add_done_callback(lambda future: self._given_up(item, future))

    def _given_up(self, item: Item, future: asyncio.Future[object]) -> None:
        if future.cancelled():
            self._forget(item)

    def publish(self, over: list[JobRun]) -> None:
        """Jobs have ended, and that is saved."""
        if not self._waiting:
            return
        answers: dict[Item, list[EndedJob]] = {}
        for run in over:
            waiting = self._waiting.get(run.job_id)
            if waiting is not None:
                end = ended(run)
                for item in waiting:
                    answers.setdefault(item, []).append(end)
        for item, ends in answers.items():
            self._forget(item)
            item.answer(JobsEnded(ends))

    def _forget(self, item: Item) -> None:
        intent = item.intent
        assert isinstance(intent, WaitJobs)
        for job_id in intent.job_ids:
            waiting = self._waiting.get(job_id, {})
            waiting.pop(item, None)
            if not waiting:
                self._waiting.pop(job_id, None)

    def drain(self) -> list[Item]:
        """All who wait, given up (the shard closes)."""
        items = {item: None for waiting in self._waiting.values() for item in waiting}
        self._waiting.clear()
        return list(items)
