"""A list intent cut in two, so that a job that cannot be saved is found without its neighbours failing with it.

Each half goes its own way, and may be cut again; the caller hears one answer, when both have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.intents import (
    CompleteJobs,
    CreateJobs,
    FireJobTimers,
    PutBackJobs,
    SaveJobStarts,
)
from perdure_engine.core.jobs.replies import JobReply, JobsAnswered, JobsCreated
from perdure_engine.core.replies import Reply
from perdure_engine.history.work import LISTS, Item, many_of

_LIST_OF: dict[type, str] = {
    CreateJobs: "jobs",
    CompleteJobs: "outcomes",
    FireJobTimers: "timers",
    PutBackJobs: "starts",
    SaveJobStarts: "starts",
}
# The call as a whole is to be repeated: that finds what the other half has done.
AS_A_WHOLE = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)


def split(item: Item) -> list[Item]:
    """Its two halves, in order. Empty: it cannot be cut."""
    intent: Any = item.intent
    if type(intent) not in LISTS:
        return []
    many = many_of(intent)
    if len(many) < 2:
        return []
    middle = len(many) // 2
    name = _LIST_OF[type(intent)]
    first = msgspec.structs.replace(intent, **{name: many[:middle]})
    second = msgspec.structs.replace(intent, **{name: many[middle:]})
    if isinstance(intent, CreateJobs) and intent.batch is not None:
        # it is sealed with the last of them, or it might be over before
        open_still = msgspec.structs.replace(intent.batch, sealed=False)
        first = msgspec.structs.replace(first, batch=open_still)
    joined = _Joined(item, middle)
    return [_Half(first, item, joined.first), _Half(second, item, joined.second)]


Answer = JobReply | Reply | Rejected


class _Half(Item):
    __slots__ = ("_tell",)

    def __init__(self, intent: Any, whole: Item, tell: Callable[[Answer], None]) -> None:
        super().__init__(intent, whole.future)
        self.absent, self.look_up = whole.absent, whole.look_up
        self._tell = tell

    def answer(self, reply: Reply | JobReply) -> None:
        self._tell(reply)

    def refuse(self, error: Rejected) -> None:
        self._tell(error)


class _Joined:
    """The two answers of a list that was cut after `middle`."""

    def __init__(self, whole: Item, middle: int) -> None:
        self._whole = whole
        self._middle = middle
        self._answers: dict[int, Answer] = {}

    def first(self, answer: Answer) -> None:
        self._came(0, answer)

    def second(self, answer: Answer) -> None:
        self._came(1, answer)

    def _came(self, half: int, answer: Answer) -> None:
        self._answers[half] = answer
        if len(self._answers) == 2:
            self._say(self._answers[0], self._answers[1])

    def _say(self, first: Answer, second: Answer) -> None:
        whole, intent = self._whole, self._whole.intent
        for answer in (first, second):
            if isinstance(answer, Rejected) and answer.code in AS_A_WHOLE:
                whole.refuse(answer)
                return
        if isinstance(intent, CreateJobs):
            made = _made(first, self._middle)
            whole.answer(JobsCreated(made + _made(second, len(intent.jobs) - self._middle)))
        elif isinstance(intent, CompleteJobs):
            refused = _refused(first, self._middle, 0)
            many = len(intent.outcomes) - self._middle
            whole.answer(JobsAnswered(refused + _refused(second, many, self._middle)))
        elif isinstance(first, Rejected) or isinstance(second, Rejected):
            whole.refuse(first if isinstance(first, Rejected) else second)  # type: ignore[arg-type]
        else:
            whole.answer(first)


def _made(answer: Answer, jobs: int) -> list[Any]:
    if isinstance(answer, JobsCreated):
        return answer.jobs
    assert isinstance(answer, Rejected)
    return [answer] * jobs


def _refused(answer: Answer, outcomes: int, offset: int) -> list[tuple[int, Rejected]]:
    if isinstance(answer, JobsAnswered):
        return [(offset + index, refusal) for index, refusal in answer.refused]
    assert isinstance(answer, Rejected)
    return [(offset + index, answer) for index in range(outcomes)]
