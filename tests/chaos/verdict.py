"""What was acknowledged against what is there: the database's runs and the ledger of effects."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.effects import Effect, read_effects
from tests.chaos.load import Acknowledged, Told
from tests.chaos.scrub import Saved, Scrubber, open_store

from perdure_engine.core import events as ev
from perdure_engine.core.ids import uuid_text

# An attempt whose fate a fault left open is claimed by its worker, or handed out again, within this.
CLAIMED_S = 30.0


@dataclass
class Verdict:
    runs: int = 0
    events: int = 0
    lost: list[str] = field(default_factory=list)  # acknowledged, and not there
    twice: list[str] = field(default_factory=list)  # applied more than once
    broken: list[str] = field(default_factory=list)  # invariants
    repeated_effects: int = 0
    repeated_without_cause: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.twice or self.broken or self.repeated_without_cause)

    def figures(self) -> dict[str, int]:
        return {
            "runs": self.runs,
            "events": self.events,
            "lost": len(self.lost),
            "duplicates": len(self.twice),
            "broken_invariants": len(self.broken),
            "repeated_effects": self.repeated_effects,
            "repeated_without_cause": len(self.repeated_without_cause),
        }

    def examples(self, most: int = 10) -> str:
        found = self.lost + self.twice + self.broken + self.repeated_without_cause
        return "\n".join(found[:most])


@dataclass
class _Seen:
    """What of a run matters for the comparison."""

    run_id: str
    closed: bool
    requests: Counter[str]
    completed_s: float | None  # when the first outcome of an activity was saved


async def compare(
    dsn: str,
    number_of_shards: int,
    acked: Acknowledged,
    effects: Path,
    faults_s: Sequence[float],
) -> Verdict:
    """At quiescence. `faults_s`: when something was done to a process, by the wall clock."""
    verdict = Verdict()
    seen: dict[str, _Seen] = {}
    async with open_store(dsn) as store:
        scrubber = Scrubber(store, number_of_shards)
        async for saved in scrubber.scrub():
            verdict.events += len(saved.history)
            if saved.workflow_id in seen:
                verdict.twice.append(f"{saved.workflow_id}: two runs of one start")
            seen[saved.workflow_id] = _look_at(saved)
    verdict.runs = scrubber.runs
    verdict.broken = scrubber.problems
    _compare_runs(verdict, acked, seen)
    for told in (*acked.signals, *acked.cancels):
        _compare_told(verdict, told, seen.get(told.workflow_id))
    completed_s = {
        acked.numbers[name]: run.completed_s for name, run in seen.items() if name in acked.numbers
    }
    _compare_effects(verdict, acked, read_effects(effects), faults_s, completed_s)
    return verdict


def _look_at(saved: Saved) -> _Seen:
    requests = Counter(
        uuid_text(event.request_id)
        for event in [*saved.history, *saved.state.buffered]
        if isinstance(event, ev.WorkflowExecutionSignaled | ev.WorkflowExecutionCancelRequested)
    )
    completed = [e.time_us for e in saved.history if isinstance(e, ev.ActivityTaskCompleted)]
    return _Seen(
        uuid_text(saved.state.run_id),
        saved.closed,
        requests,
        completed[0] / 1e6 if completed else None,
    )


def _compare_runs(verdict: Verdict, acked: Acknowledged, seen: dict[str, _Seen]) -> None:
    for workflow_id, run_id in acked.starts.items():
        run = seen.get(workflow_id)
        if run is None or run.run_id != run_id:
            verdict.lost.append(f"{workflow_id}: the run {run_id} that was acknowledged")
        elif workflow_id in acked.results and not run.closed:
            verdict.lost.append(f"{workflow_id}: its result was answered and it is open")
        elif workflow_id not in acked.results:
            verdict.lost.append(f"{workflow_id}: started and never answered with a result")


def _compare_told(verdict: Verdict, told: Told, run: _Seen | None) -> None:
    request_id = str(uuid.UUID(told.request_id))
    count = 0 if run is None else run.requests[request_id]
    if count == 0:
        verdict.lost.append(f"{told.workflow_id}: request {request_id} is not in its history")
    elif count > 1:
        verdict.twice.append(f"{told.workflow_id}: request {request_id} is there {count} times")


def _compare_effects(
    verdict: Verdict,
    acked: Acknowledged,
    effects: Iterable[Effect],
    faults_s: Sequence[float],
    completed_s: dict[int, float | None],
) -> None:
    by_key: dict[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_key[effect.key].append(effect)
    happened = {same[0].number for same in by_key.values()}
    for workflow_id, expected in acked.expected.items():
        number = acked.numbers[workflow_id]
        has_effect = isinstance(expected, int | list) and not hasattr(expected, "name")
        if has_effect and number not in happened:
            verdict.lost.append(f"{workflow_id}: a result of an effect that never happened")
    for same in by_key.values():
        for earlier, later in itertools.pairwise(same):
            verdict.repeated_effects += 1
            if not _has_cause(earlier, later, faults_s, completed_s.get(later.number)):
                verdict.repeated_without_cause.append(
                    f"effect {later.number} again at {later.at_s:.3f} (pid {later.pid}), after"
                    f" {earlier.at_s:.3f} (pid {earlier.pid}); completed"
                    f" {completed_s.get(later.number)}; faults"
                    f" {[round(s, 3) for s in faults_s if abs(s - later.at_s) < 2 * CLAIMED_S]}"
                )


def _has_cause(
    earlier: Effect, later: Effect, faults_s: Sequence[float], completed_s: float | None
) -> bool:
    """A fault hit the attempt while its completion was not saved; anything else is the engine's."""
    hit = any(earlier.at_s - CLAIMED_S <= fault_s <= later.at_s for fault_s in faults_s)
    return hit and (completed_s is None or completed_s >= later.at_s)
