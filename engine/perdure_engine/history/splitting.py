"""A list intent cut in two, so that a job that cannot be saved is found without its neighbours failing with it.

Each half goes its own way, and may be cut again; the caller hears one answer, when both have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.intents import CompleteJobs, CreatedJob, CreateJobs
from perdure_engine.core.jobs.replies import JobsAnswered, JobsCreated
from perdure_engine.history.work import LIST_OF, AnyReply, Item, many_of

# The call as a whole is to be repeated: that finds what the other half has done.
AS_A_WHOLE = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)


Put = Callable[[list[Item]], None]
Answer = AnyReply | Rejected


def split(item: Item, put: Put) -> bool:
    """Put its two halves where it would have gone, in order. False: it cannot be cut."""
    intent: Any = item.intent
    name = LIST_OF.get(type(intent))
    if name is None:
        return False
    many = many_of(intent)
    if len(many) < 2:
        return False
    middle = len(many) // 2
    first = msgspec.structs.replace(intent, **{name: many[:middle]})
    second = msgspec.structs.replace(intent, **{name: many[middle:]})
    joined = _Joined(item, middle, put)
    put(
        [
            _Part(_unsealed(first), item, joined.first),
            _Part(_unsealed(second), item, joined.second),
        ]
    )
    return True


def _unsealed(intent: Any) -> Any:
    """A batch is sealed when all jobs of the call are in, or it might be over before."""
    if not isinstance(intent, CreateJobs) or intent.batch is None:
        return intent
    open_still = msgspec.structs.replace(intent.batch, sealed=False)
    return msgspec.structs.replace(intent, batch=open_still)


class _Part(Item):
    __slots__ = ("_tell",)

    def __init__(self, intent: Any, whole: Item, tell: Callable[[Answer], None]) -> None:
        super().__init__(intent, whole.future)
        self.absent, self.look_up = whole.absent, whole.look_up
        self._tell = tell

    def answer(self, reply: AnyReply) -> None:
        self._tell(reply)

    def refuse(self, error: Rejected) -> None:
        self._tell(error)


class _Joined:
    """The two answers of a list that was cut after `middle`."""

    def __init__(self, whole: Item, middle: int, put: Put) -> None:
        self._whole = whole
        self._middle = middle
        self._put = put
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
        refusals = [answer for answer in (first, second) if isinstance(answer, Rejected)]
        for refusal in refusals:
            if refusal.code in AS_A_WHOLE:
                whole.refuse(refusal)
                return
        if isinstance(intent, CreateJobs):
            made = _made(first, self._middle) + _made(second, len(intent.jobs) - self._middle)
            self._seal(intent, JobsCreated(made))
        elif isinstance(intent, CompleteJobs):
            refused = _refused(first, self._middle, 0)
            many = len(intent.outcomes) - self._middle
            whole.answer(JobsAnswered(refused + _refused(second, many, self._middle)))
        elif refusals:
            whole.refuse(refusals[0])
        else:
            whole.answer(None)

    def _seal(self, intent: CreateJobs, made: JobsCreated) -> None:
        """All jobs are in that could be."""
        if intent.batch is None or not intent.batch.sealed:
            self._whole.answer(made)
            return

        def sealed(answer: Answer) -> None:
            if isinstance(answer, Rejected):
                self._whole.refuse(answer)
            else:
                self._whole.answer(made)

        self._put([_Part(msgspec.structs.replace(intent, jobs=()), self._whole, sealed)])


def _made(answer: Answer, jobs: int) -> list[CreatedJob | Rejected]:
    if isinstance(answer, JobsCreated):
        return answer.jobs
    assert isinstance(answer, Rejected)
    return [answer] * jobs


def _refused(answer: Answer, outcomes: int, offset: int) -> list[tuple[int, Rejected]]:
    if isinstance(answer, JobsAnswered):
        return [(offset + index, refusal) for index, refusal in answer.refused]
    assert isinstance(answer, Rejected)
    return [(offset + index, answer) for index in range(outcomes)]
