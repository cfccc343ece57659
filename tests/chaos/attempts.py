"""What the ledger tells of the attempts of jobs, and what faults may have done to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.effects import CLIMBED_TO, CLIMBS_FROM, Effect
from tests.chaos.killing import WORKER, Kill

# What a fault left open is claimed by its worker, or handed out again, within this: a node's lease and an attempt's.
CLAIMED_S = 20.0
NEVER_S = 1e12
LATE_S = 2.0  # after it woke, what a stopped process had been about to do may still show


@dataclass
class Attempt:
    """One run of a job's code. `over_s` None: it has left no word of its end."""

    key: str
    number: int
    attempt: int
    pid: int
    begun_s: float
    over_s: float | None = None


def attempts_of(ledger: Iterable[Effect]) -> dict[str, list[Attempt]]:
    """By job, in the order in which they began."""
    found: dict[str, list[Attempt]] = {}
    for line in ledger:
        if line.key.endswith((CLIMBS_FROM, CLIMBED_TO)):
            continue
        same = found.setdefault(line.key, [])
        if not line.over:
            same.append(Attempt(line.key, line.number, line.attempt, line.pid, line.at_s))
            continue
        running = [
            one
            for one in same
            if one.over_s is None and (one.attempt, one.pid) == (line.attempt, line.pid)
        ]
        # of two in one process the earlier began earlier, and was told to stop earlier
        running[0].over_s = line.at_s
    return found


def lost_steps(ledger: Iterable[Effect]) -> list[str]:
    """Invariant 33: attempts that began behind what had been saved before."""
    reached: dict[str, int] = {}
    lost: list[str] = []
    for line in ledger:
        job_id = line.key.removesuffix(CLIMBS_FROM).removesuffix(CLIMBED_TO)
        if line.key.endswith(CLIMBED_TO):
            reached[job_id] = max(line.number, reached.get(job_id, 0))
        elif line.key.endswith(CLIMBS_FROM) and line.number < reached.get(job_id, 0):
            lost.append(f"33: {job_id} had reached {reached[job_id]}, and went on from {line}")
    return lost


class Faults:
    """What was done to the processes, by the wall clock."""

    def __init__(self, kills: Sequence[Kill]) -> None:
        self.kills = kills
        self._deaths_s = {
            pid: kill.at_s for kill in kills if not kill.stopped for pid in kill.pids.values()
        }
        self._of_engine = [kill for kill in kills if not kill.only(WORKER) and not kill.orderly]

    def of_engine(self, from_s: float, to_s: float) -> bool:
        """Whether a node or the database was hit in that time, or had been and was not got over."""
        return any(
            kill.at_s <= to_s and kill.restarted_s + CLAIMED_S >= from_s for kill in self._of_engine
        )

    def interrupted(self, earlier: Attempt, later: Attempt) -> bool:
        """Whether there is a reason for the second of two attempts: the first one's process was killed, or what it
        said of its end may have been lost with a node or the database."""
        hit = any(
            earlier.pid in kill.pids.values()
            and kill.at_s <= later.begun_s
            and earlier.begun_s <= kill.restarted_s
            for kill in self.kills
        )
        return hit or self.of_engine(earlier.begun_s, later.begun_s)

    def delayed(self, attempt: Attempt) -> bool:
        """Whether it may have been handed out long before it began: its worker, or who handed it out, stood still. Such
        a one may begin when its time is over, and is told so within a moment."""
        return any(
            kill.stopped and kill.at_s <= attempt.begun_s <= kill.restarted_s + LATE_S
            for kill in self.kills
        )

    def death_s(self, pid: int) -> float | None:
        """When the process was killed, if it was."""
        return self._deaths_s.get(pid)


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """How many of the spans, without their ends, share a moment."""
    edges = sorted(edge for begin, end in spans if begin < end for edge in ((begin, 1), (end, -1)))
    most = count = 0
    for _, step in edges:
        count += step
        most = max(most, count)
    return most
