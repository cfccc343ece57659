"""Schedules that fire every second or few: jobs and workflows, under each overlap policy that does not stop what runs.

They are paused for a while, triggered now and then, and deleted at the end, so that nothing of theirs is left open.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from tests.chaos.job_callers import JobCallers
from tests.chaos.load import wait_for
from tests.chaos.program import Recorded, Slow

from perdure.errors import RPCError
from perdure.schedule import (
    Schedule,
    ScheduleAction,
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSlot,
    ScheduleSpec,
)

MEDDLE_S = (1.0, 6.0)  # between calls that change something
PAUSED_S = (2.0, 6.0)
Overlap = ScheduleOverlapPolicy


class Kind(NamedTuple):
    """`seconds`: what an action takes."""

    name: str
    every_s: int
    overlap: Overlap
    seconds: float
    workflow: bool = False


KINDS = (
    Kind("job-allow", 1, Overlap.ALLOW_ALL, 0.0),
    Kind("job-allow-long", 1, Overlap.ALLOW_ALL, 1.7),
    Kind("job-skip", 1, Overlap.SKIP, 0.6),
    Kind("job-skip-long", 2, Overlap.SKIP, 3.1),
    Kind("job-buffer-one", 1, Overlap.BUFFER_ONE, 1.3),
    Kind("job-buffer-all", 2, Overlap.BUFFER_ALL, 0.5),
    Kind("workflow-allow", 1, Overlap.ALLOW_ALL, 0.0, workflow=True),
    Kind("workflow-skip", 2, Overlap.SKIP, 0.0, workflow=True),
    Kind("workflow-skip-long", 2, Overlap.SKIP, 2.9, workflow=True),
    Kind("workflow-buffer-one", 2, Overlap.BUFFER_ONE, 2.5, workflow=True),
    Kind("workflow-buffer-all", 3, Overlap.BUFFER_ALL, 0.5, workflow=True),
)


class Pause(NamedTuple):
    """By the wall clock: when it was asked for and answered, when its end was."""

    asked_s: float
    answered_s: float
    end_asked_s: float
    end_answered_s: float


@dataclass
class ScheduleStory:
    schedule_id: str
    number: int  # of its effects
    kind: Kind
    asked_s: float
    answered_s: float
    pauses: list[Pause] = field(default_factory=list)
    triggered: list[ScheduleSlot] = field(default_factory=list)
    delete_asked_s: float = 0.0
    deleted_s: float = 0.0


class ScheduleLoad:
    """`run` until `stop` is set, `delete_all` once."""

    def __init__(self, callers: JobCallers, queue: str, seed: int, copies: int) -> None:
        self.stories: list[ScheduleStory] = []
        self.stop = asyncio.Event()
        self.wrong: list[str] = []
        self._callers = callers
        self._queue = queue
        self._random = random.Random(seed)
        self._copies = copies

    async def run(self) -> None:
        kinds = [(kind, copy) for copy in range(self._copies) for kind in KINDS]
        await asyncio.gather(
            *(self._create(kind, copy, -1 - number) for number, (kind, copy) in enumerate(kinds))
        )
        while not await wait_for(self.stop, self._random.uniform(*MEDDLE_S)):
            story = self._random.choice(self.stories)
            try:
                if self._random.random() < 0.5:
                    await self._pause(story)
                else:
                    story.triggered.append(await self._callers.trigger(story.schedule_id))
            except RPCError as error:
                self._wrong(story.schedule_id, error)

    async def delete_all(self) -> None:
        await asyncio.gather(*(self._delete(story) for story in self.stories))

    async def _create(self, kind: Kind, copy: int, number: int) -> None:
        schedule_id = f"{kind.name}-{copy}"
        schedule = Schedule(
            action=self._action(kind, number),
            spec=ScheduleSpec(
                intervals=[ScheduleIntervalSpec(every=timedelta(seconds=kind.every_s))]
            ),
            policy=SchedulePolicy(overlap=kind.overlap),
        )
        asked_s = time.time()
        try:
            await self._callers.create_schedule(schedule_id, schedule)
        except RPCError as error:
            self._wrong(schedule_id, error)
        else:
            story = ScheduleStory(schedule_id, number, kind, asked_s, time.time())
            self.stories.append(story)

    def _action(self, kind: Kind, number: int) -> ScheduleAction:
        if not kind.workflow:
            if kind.seconds:
                return ScheduleActionStartJob("toil", number, kind.seconds, queue=self._queue)
            return ScheduleActionStartJob("note", number, queue=self._queue)
        if kind.seconds:
            return ScheduleActionStartWorkflow(
                Slow.run, args=[number, kind.seconds], task_queue=self._queue
            )
        return ScheduleActionStartWorkflow(Recorded.run, number, task_queue=self._queue)

    async def _pause(self, story: ScheduleStory) -> None:
        asked_s = time.time()
        await self._callers.pause(story.schedule_id)
        answered_s = time.time()
        await wait_for(self.stop, self._random.uniform(*PAUSED_S))
        end_asked_s = time.time()
        await self._callers.unpause(story.schedule_id)
        story.pauses.append(Pause(asked_s, answered_s, end_asked_s, time.time()))

    async def _delete(self, story: ScheduleStory) -> None:
        story.delete_asked_s = time.time()
        try:
            await self._callers.delete_schedule(story.schedule_id)
        except RPCError as error:
            self._wrong(story.schedule_id, error)
        else:
            story.deleted_s = time.time()

    def _wrong(self, schedule_id: str, error: RPCError) -> None:
        self.wrong.append(f"{schedule_id}: {error.status.name} {error.reason} {error}")
