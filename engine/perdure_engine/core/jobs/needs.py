"""What has to be in memory before an intent about jobs is decided: fetch everything first, then decide."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from perdure_engine.core.jobs import intents
from perdure_engine.core.jobs.memory import BatchId, JobMemory, KeyId, RoomId, unique_key_id
from perdure_engine.core.jobs.model import JobRun, JobSpec

NONE: frozenset[bytes] = frozenset()


class Needs(msgspec.Struct):
    """What is missing in memory. `absent`: job ids that were looked up and are nobody's."""

    memory: JobMemory
    absent: Collection[bytes]
    jobs: dict[bytes, None] = {}
    keys: dict[KeyId, None] = {}
    rooms: dict[RoomId, None] = {}
    batches: dict[BatchId, None] = {}

    @property
    def met(self) -> bool:
        return not (self.jobs or self.keys or self.rooms or self.batches)

    def job(self, job_id: bytes) -> JobRun | None:
        """The job, if it is in memory; else it is needed, unless there is none."""
        run = self.memory.jobs.get(job_id)
        if run is None and job_id not in self.absent:
            self.jobs[job_id] = None
        return run

    def unique(self, namespace_id: bytes, spec: JobSpec) -> None:
        if spec.unique is None:
            return
        key_id = unique_key_id(namespace_id, spec)
        known = self.memory.keys.get(key_id)
        if known is None:
            self.keys[key_id] = None
        elif known.job_id:
            self.job(known.job_id)

    def room(self, namespace_id: bytes, spec: JobSpec) -> None:
        if spec.concurrency is None:
            return
        room_id = (namespace_id, spec.concurrency.key)
        room = self.memory.rooms.get(room_id)
        if room is None or room.is_short:
            self.rooms[room_id] = None

    def batch(self, namespace_id: bytes, batch_id: str) -> None:
        """With what its callback needs: any of its jobs may be the last that ends."""
        known = self.memory.batches.get((namespace_id, batch_id))
        if known is None:
            self.batches[namespace_id, batch_id] = None
        elif known.callback is not None:
            self.unique(namespace_id, known.callback.spec)
            self.room(namespace_id, known.callback.spec)

    def changing(self, job_id: bytes) -> JobRun | None:
        """A job that may end, become ready or give its place up."""
        run = self.job(job_id)
        if run is not None:
            if run.spec.concurrency is not None:
                self.room(run.namespace_id, run.spec)
            if run.batch_id:
                self.batch(run.namespace_id, run.batch_id)
        return run


def missing(
    memory: JobMemory,
    intent: intents.JobIntent,
    absent: Collection[bytes] = NONE,
    *,
    look_up: bool = False,
) -> Needs | None:
    """None: nothing is. `look_up`: of a creation, whether jobs may be there already that no key names: a repeat."""
    needs = Needs(memory, absent)
    if isinstance(intent, intents.CreateJobs):
        _create(needs, intent, look_up)
    else:
        _NEEDS[type(intent)](needs, intent)
    return None if needs.met else needs


def _create(needs: Needs, intent: intents.CreateJobs, look_up: bool) -> None:
    namespace_id = intent.namespace_id
    if intent.batch is not None:
        batch = needs.memory.batches.get((namespace_id, intent.batch.batch_id))
        # It takes no more jobs: whether these are refused or are a repeat, the rows say.
        look_up = look_up or (batch is not None and batch.sealed)
    for new in intent.jobs:
        spec = new.spec
        if look_up or spec.idempotency_key:
            needs.job(new.job_id)
        if spec.unique is not None:
            needs.unique(namespace_id, spec)
        if spec.concurrency is not None:
            needs.room(namespace_id, spec)
    if intent.batch is not None:
        needs.batch(namespace_id, intent.batch.batch_id)
        if intent.batch.callback is not None:
            needs.unique(namespace_id, intent.batch.callback.spec)
            needs.room(namespace_id, intent.batch.callback.spec)


def _complete(needs: Needs, intent: intents.CompleteJobs) -> None:
    jobs = needs.memory.jobs
    for outcome in intent.outcomes:
        job_id = outcome.token.run_id
        run = jobs.get(job_id)
        if run is None or run.batch_id or run.spec.concurrency is not None:
            needs.changing(job_id)


def job_ids_of(intent: intents.JobIntent) -> list[bytes]:
    """The jobs that the intent names. What else it is about (holders of keys, callbacks) follows from them."""
    match intent:
        case intents.CreateJobs():
            return [new.job_id for new in intent.jobs]
        case intents.CompleteJobs():
            return [outcome.token.run_id for outcome in intent.outcomes]
        case intents.PutBackJobs() | intents.SaveJobStarts():
            return [start[0] for start in intent.starts]
        case intents.FireJobTimers():
            return [job_id for *_, job_id in intent.timers]
        case intents.TakeBackCrashes():
            return [job_id for job_id, _ in intent.marks]
        case intents.WaitJobs():
            return list(intent.job_ids)
        case intents.SaveJobProgress():
            return [intent.token.run_id]
        case _:
            return [intent.job_id]


def _change(needs: Needs, intent: intents.JobIntent) -> None:
    for job_id in job_ids_of(intent):
        needs.changing(job_id)


def _redrive(needs: Needs, intent: intents.RedriveJob) -> None:
    run = needs.changing(intent.job_id)
    if run is not None:
        needs.unique(run.namespace_id, run.spec)


def _describe(needs: Needs, intent: intents.DescribeJob) -> None:
    needs.job(intent.job_id)


def _wait(needs: Needs, intent: intents.WaitJobs) -> None:
    for job_id in intent.job_ids:
        needs.job(job_id)


_NEEDS: dict[type, Callable[[Needs, Any], None]] = {
    intents.CompleteJobs: _complete,
    intents.RedriveJob: _redrive,
    intents.DescribeJob: _describe,
    intents.WaitJobs: _wait,
    **dict.fromkeys(
        (
            intents.CancelJob,
            intents.RescheduleJob,
            intents.ResumeJob,
            intents.PutBackJobs,
            intents.TakeBackCrashes,
            intents.SaveJobStarts,
            intents.TimeOutJob,
            intents.SaveJobProgress,
            intents.FireJobTimers,
        ),
        _change,
    ),
}
