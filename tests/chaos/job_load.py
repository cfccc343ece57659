"""The load of jobs: W4 (in bulk, due now) and W5 (in bulk, due in the same second), with everything among them that a
job can have: retries, time-outs, keys, batches, cancels, other times."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.job_callers import JobCallers
from tests.chaos.job_stories import (
    CALLED_BACK,
    CLIMB,
    COMPLETED,
    FAILED,
    HANG,
    MAYBE_CANCELLED,
    MAYBE_FAILED,
    MAYBE_SKIPPED,
    NOTE,
    STUMBLE,
    TOIL,
    Cancelled,
    JobsAcknowledged,
    Rescheduled,
    Story,
)
from tests.chaos.load import wait_for

from perdure import job
from perdure._wire.new_jobs import MadeJob
from perdure.common import RetryPolicy
from perdure.errors import JobError, RPCError, RPCStatusCode
from perdure.job import Concurrency, ConcurrencyPolicy, JobStatus, NewJob, UniqueScope

BACKOFF = timedelta(milliseconds=300)
RETRIES = RetryPolicy(initial_interval=BACKOFF, maximum_attempts=3)
ONCE = RetryPolicy(maximum_attempts=1)
PATIENT = RetryPolicy(initial_interval=BACKOFF, maximum_attempts=50)
HANG_LIMIT = timedelta(seconds=1)
KEYS = {
    "one": Concurrency(key="one"),
    "three": Concurrency(key="three", limit=3),
    "newest": Concurrency(key="newest", policy=ConcurrencyPolicy.CANCEL_NEWEST),
    "running": Concurrency(key="running", limit=2, policy=ConcurrencyPolicy.CANCEL_RUNNING),
}
CANCELLING = (ConcurrencyPolicy.CANCEL_NEWEST, ConcurrencyPolicy.CANCEL_RUNNING)
UNIQUE_KEYS = 6
EXECUTING = 8  # lanes
BATCH_NOTES = (5, 60)

Lane = Callable[[], Awaitable[None]]


class JobLoad:
    """Lanes, until `stop` is set; then each ends what it has begun. `pace`: 1.0 is some 300 jobs a second.

    `climbs`: jobs that save checkpoints, which a worker can with one node only until nodes route.
    """

    def __init__(
        self, callers: JobCallers, queue: str, seed: int, pace: float, *, climbs: bool
    ) -> None:
        self.acked = JobsAcknowledged()
        self.stop = asyncio.Event()
        self._callers = callers
        self._queue = queue
        self._random = random.Random(seed)
        self._pace = pace
        self._climbs = climbs
        self._numbers = itertools.count(1)
        self._meddling: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        lanes: tuple[tuple[Lane, float], ...] = (
            (self._now, 0.5),
            (self._at_once, 2.0),
            (self._keyed, 0.4),
            (self._unique, 0.5),
            (self._idempotent, 0.5),
            (self._batch, 1.5),
            (self._ended_ones, 0.2),
            *[(self._executed, 0.1)] * EXECUTING,
        )
        if self._climbs:
            lanes = (*lanes, (self._climb, 0.5))
        async with asyncio.TaskGroup() as group:
            for lane, every_s in lanes:
                group.create_task(self._lane(lane, every_s))
        await asyncio.gather(*self._meddling)

    async def _lane(self, once: Lane, every_s: float) -> None:
        while not self.stop.is_set():
            try:
                await once()
            except (RPCError, JobError) as error:  # a finding, not the end of the load
                self._wrong(f"{once.__name__}: {error!r}")
            pause_s = every_s * self._random.uniform(0.5, 1.5)
            await wait_for(self.stop, pause_s)

    # ---- lanes

    async def _now(self) -> None:
        """W4."""
        sizes = (20, 120, 1_000, 3_000)
        size = int(self._random.choices(sizes, (60, 34, 5, 1))[0] * self._pace) + 1
        stories = [self._any() for _ in range(size)]
        jobs = [self._new(story) for story in stories]
        made = await self._create(stories, jobs)
        for job_id, story in made:
            if story.task == TOIL and self._random.random() < 0.03:
                self._meddle(self._cancel(job_id, self._random.uniform(0.0, 0.5)))

    async def _at_once(self) -> None:
        """W5. Some are cancelled before their time, others get another one."""
        chance = self._random
        due_s = math.ceil(time.time()) + chance.randint(2, 5)
        size = int(chance.choice((20, 100, 400)) * self._pace) + 1
        stories = [self._any(expires=True) for _ in range(size)]
        due = datetime.fromtimestamp(due_s, UTC)
        jobs = [self._new(story, run_at=due) for story in stories]
        for job_id, _ in await self._create(stories, jobs):
            meddled = chance.random()
            before_s = due_s - time.time() + chance.choice((-1.0, -0.05, 0.0))
            if meddled < 0.05:
                self._meddle(self._cancel(job_id, max(0.0, before_s)))
            elif meddled < 0.1:
                other_s = due_s + chance.choice((-1, 2))
                self._meddle(self._reschedule(job_id, max(0.0, before_s), other_s))

    async def _keyed(self) -> None:
        """More than may run at once."""
        name = self._random.choice(tuple(KEYS))
        concurrency = KEYS[name]
        cancelling = concurrency.policy in CANCELLING
        stories = [
            Story(
                next(self._numbers),
                TOIL,
                MAYBE_CANCELLED if cancelling else COMPLETED,
                seconds=self._random.uniform(0.01, 0.5),
            )
            for _ in range(self._random.randint(1, 3 * concurrency.limit))
        ]
        await self._create(stories, [self._new(one, concurrency=concurrency) for one in stories])

    async def _unique(self) -> None:
        key = f"unique-{self._random.randrange(UNIQUE_KEYS)}"
        story = Story(
            next(self._numbers), TOIL, seconds=self._random.uniform(0.05, 1.5), unique=key
        )
        new = self._new(story, unique_key=key, unique_scope=UniqueScope.ACTIVE)
        await asyncio.gather(self._create([story], [new]), self._another(story))

    async def _another(self, like: Story) -> None:
        """At the same moment, of the same unique key."""
        story = like._replace(number=next(self._numbers))
        new = self._new(story, unique_key=like.unique, unique_scope=UniqueScope.ACTIVE)
        await self._create([story], [new])

    async def _idempotent(self) -> None:
        """Asked for several times, with another message each time, at once and one after the other."""
        number = next(self._numbers)
        story = Story(number, NOTE, idempotency=f"idempotent-{number}")

        async def ask() -> None:
            await self._create([story], [self._new(story, idempotency_key=story.idempotency)])

        await asyncio.gather(ask(), ask())
        await wait_for(self.stop, self._random.choice((0.0, 1.0)))
        await ask()

    async def _batch(self) -> None:
        """In one message or in two; its callback follows its last job."""
        number = next(self._numbers)
        name = f"batch-{number}"
        stories = [
            self._any()._replace(batch=name) for _ in range(self._random.randint(*BATCH_NOTES))
        ]
        callback = job.callback(CALLED_BACK, queue=self._queue)
        about: dict[str, Any] = {"batch_id": name, "callback": self._callers.callback(callback)}
        acked = self.acked.batches[name] = set()
        cut = self._random.choice((0, len(stories) // 2))
        for part, more in ((stories[:cut], True), (stories[cut:], False)):
            if not part:
                continue
            new = [self._new(story) for story in part]
            made = await self._create(part, new, {**about, "more": more})
            acked.update(job_id for job_id, _ in made)
            if made and self._random.random() < 0.2:
                self._meddle(self._cancel(made[0][0], 0.0))

    async def _climb(self) -> None:
        story = Story(next(self._numbers), CLIMB)
        await self._create([story], [self._new(story)])

    async def _executed(self) -> None:
        """Made, and waited for."""
        story = Story(next(self._numbers), TOIL, seconds=self._random.choice((0.0, 0.0, 0.5, 2.0)))
        result = await self._callers.execute(self._new(story))
        self.acked.executed += 1
        if result != story.number:
            self._wrong(f"{story}: executed, and {result!r}")

    async def _ended_ones(self) -> None:
        """What was answered of a job's end stays so."""
        if not self.acked.jobs:
            return
        recent = list(itertools.islice(reversed(self.acked.jobs), 2_000))
        job_id = self._random.choice(recent)
        found = await self._callers.describe(job_id)
        if found.close_time is not None and found.status is not None:
            self.acked.ended[job_id] = found.status

    # ---- calls, and what their answers promise

    async def _create(
        self,
        stories: Sequence[Story],
        jobs: Sequence[NewJob[Any]],
        batch: dict[str, Any] | None = None,
    ) -> list[tuple[str, Story]]:
        """Those that were made, or were there by their keys."""
        times = 2 if self._random.random() < 0.05 else 1
        self.acked.repeats += times - 1
        outcomes = await self._callers.create(jobs, batch, times=times)
        made: list[tuple[str, Story]] = []
        for story, outcome in zip(stories, outcomes, strict=True):
            if not isinstance(outcome, MadeJob) and _came_too_late(story, outcome):
                self.acked.not_made.append(story)
            elif not isinstance(outcome, MadeJob):
                self._wrong(f"{story}: {outcome.status.name} {outcome.reason} {outcome}")
            elif story.unique or story.idempotency:
                self.acked.found.append((outcome.id, story))
            else:
                self.acked.jobs[outcome.id] = story
                made.append((outcome.id, story))
        return made

    def _meddle(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._meddling.add(task)
        task.add_done_callback(self._meddling.discard)

    async def _cancel(self, job_id: str, after_s: float) -> None:
        story = self.acked.jobs[job_id]
        self.acked.jobs[job_id] = story._replace(ends=story.ends | {JobStatus.CANCELLED})
        await wait_for(self.stop, after_s)
        try:
            status = await self._callers.cancel(job_id)
        except RPCError as error:
            self._too_late(job_id, error)
            return
        if status is None:
            self._wrong(f"{job_id}: cancelled, and has no status")
        else:
            self.acked.cancels.append(Cancelled(job_id, status, time.time()))

    async def _reschedule(self, job_id: str, after_s: float, due_s: float) -> None:
        await wait_for(self.stop, after_s)
        try:
            await self._callers.reschedule(job_id, datetime.fromtimestamp(due_s, UTC))
        except RPCError as error:
            self._too_late(job_id, error)
        else:
            self.acked.reschedules.append(Rescheduled(job_id, due_s, time.time()))

    def _too_late(self, job_id: str, error: RPCError) -> None:
        if error.status is RPCStatusCode.FAILED_PRECONDITION:
            self.acked.refused += 1
        else:
            self._wrong(f"{job_id}: {error.status.name} {error.reason} {error}")

    def _wrong(self, what: str) -> None:
        self.acked.wrong.append(what)

    # ---- jobs

    def _any(self, *, expires: bool = False) -> Story:
        chance = self._random
        number = next(self._numbers)
        match chance.choices(
            (NOTE, TOIL, STUMBLE, "fall", "once", HANG, "late"),
            (60, 18, 10, 3, 6, 1, 2 if expires else 0),
        )[0]:
            case "toil":
                return Story(number, TOIL, seconds=chance.uniform(0.1, 2.5))
            case "stumble":
                fails = chance.randint(1, 2)
                return Story(number, STUMBLE, fails=fails, backoff_s=BACKOFF.total_seconds())
            case "fall":
                return Story(number, STUMBLE, FAILED, fails=3, backoff_s=BACKOFF.total_seconds())
            case "once":
                return Story(number, TOIL, MAYBE_FAILED, seconds=chance.uniform(0, 1), once=True)
            case "hang":
                return Story(number, HANG, backoff_s=BACKOFF.total_seconds())
            case "late":
                return Story(number, NOTE, MAYBE_SKIPPED)
            case _:
                return Story(number, NOTE)

    def _new(self, story: Story, **options: Any) -> NewJob[Any]:
        options["queue"] = self._queue
        if story.once:
            options["retry_policy"] = ONCE
        elif story.task == HANG:
            options |= {"timeout": HANG_LIMIT, "retry_policy": PATIENT}
        else:
            options["retry_policy"] = RETRIES
        if JobStatus.SKIPPED in story.ends:
            options["expires_at"] = options["run_at"] + timedelta(seconds=1)
        return job.new(story.task, args=story.args, **options)


def _came_too_late(story: Story, error: RPCError) -> bool:
    """The call had no owner to go to before the job's time was over."""
    return JobStatus.SKIPPED in story.ends and error.status is RPCStatusCode.INVALID_ARGUMENT
