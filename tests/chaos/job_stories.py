"""What was asked of jobs, what was acknowledged, and so what may become of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from perdure.job import JobStatus

COMPLETED = frozenset((JobStatus.COMPLETED,))
FAILED = frozenset((JobStatus.FAILED,))
MAYBE_FAILED = COMPLETED | FAILED
MAYBE_CANCELLED = COMPLETED | {JobStatus.CANCELLED}
MAYBE_SKIPPED = COMPLETED | {JobStatus.SKIPPED}

NOTE, TOIL, STUMBLE, HANG, CLIMB = "note", "toil", "stumble", "hang", "climb"
CALLED_BACK = "called_back"
STEPS = 6  # of a climb


class Story(NamedTuple):
    """One job."""

    number: int
    task: str
    ends: frozenset[JobStatus] = COMPLETED
    seconds: float = 0.0  # of toil
    fails: int = 0  # of stumbles, in a row
    once: bool = False  # one attempt at most
    backoff_s: float = 0.0  # before its second attempt, at least
    idempotency: str = ""
    unique: str = ""
    batch: str = ""

    @property
    def args(self) -> list[int | float]:
        match self.task:
            case "toil":
                return [self.number, self.seconds]
            case "stumble":
                return [self.number, self.fails]
            case "climb":
                return [self.number, STEPS]
            case _:
                return [self.number]


class Cancelled(NamedTuple):
    """A cancel that was answered with the job's status."""

    job_id: str
    status: JobStatus
    at_s: float


class Rescheduled(NamedTuple):
    """An acknowledged reschedule, and what it was to."""

    job_id: str
    due_s: float
    at_s: float


@dataclass
class JobsAcknowledged:
    """What the engine has promised, as its callers heard it."""

    jobs: dict[str, Story] = field(default_factory=dict)
    found: list[tuple[str, Story]] = field(default_factory=list)  # answered, and not made
    not_made: list[Story] = field(default_factory=list)  # refused
    cancels: list[Cancelled] = field(default_factory=list)
    reschedules: list[Rescheduled] = field(default_factory=list)
    batches: dict[str, set[str]] = field(default_factory=dict)  # the jobs of each
    ended: dict[str, JobStatus] = field(default_factory=dict)  # by an answer
    executed: int = 0  # made and waited for
    refused: int = 0  # cancels and reschedules that came too late
    repeats: int = 0
    wrong: list[str] = field(default_factory=list)  # answers that cannot be

    def figures(self) -> dict[str, int]:
        return {
            "jobs": len(self.jobs),
            "found": len(self.found),
            "executed": self.executed,
            "not_made": len(self.not_made),
            "cancels": len(self.cancels),
            "reschedules": len(self.reschedules),
            "refused": self.refused,
            "batches": len(self.batches),
            "repeats": self.repeats,
            "wrong": len(self.wrong),
        }
