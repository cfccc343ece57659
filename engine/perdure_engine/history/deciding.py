"""What a step decides about runs: which run an intent is for, and what becomes of it.

A run that is not in memory is loaded beside the actor's loop, and its intents wait parked (`loading`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from perdure_engine.core import intents
from perdure_engine.core.decide import decide, start_workflow
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.limits import RUN_INTENTS_PER_BATCH_MAX
from perdure_engine.core.replies import Reply, Started
from perdure_engine.core.versions import version_name
from perdure_engine.history import later
from perdure_engine.history.addressing import address_of, require_same_workflow
from perdure_engine.history.beginning import begin, follow, replaces
from perdure_engine.history.pacing import paced
from perdure_engine.history.refusals import run_id_in_use
from perdure_engine.history.run import CurrentRun, Run
from perdure_engine.history.work import Item, ShardStep

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard


class Deciding:
    __slots__ = ("_shard",)

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def decide(self, step: ShardStep, item: Item, env: Env, taken: dict[bytes, int] | None) -> bool:
        """False: its run has had its share of the step. `taken`: how much each run has had; None: none has too much."""
        try:
            run = self._run_of(item)
        except Rejected as refusal:  # an answer like any other: it leaves after the commit
            step.items.append(item)
            step.answers.append((item, refusal))
            return True
        if run is None:
            return True
        if taken is not None and isinstance(run, Run):
            run_id = run.state.run_id
            taken[run_id] = taken.get(run_id, 0) + 1
            if taken[run_id] > RUN_INTENTS_PER_BATCH_MAX:
                return False
        try:
            self._decide_one(step, item, run, env)
        except Exception as error:
            raise Bug(run) from error
        return True

    def _decide_one(self, step: ShardStep, item: Item, run: Run | CurrentRun, env: Env) -> None:
        step.items.append(item)
        try:
            reply = self._reply(step, item, run, env)
        except Rejected as refusal:
            step.answers.append((item, refusal))
        else:
            if not isinstance(reply, _Later):
                step.answers.append((item, reply))

    def _reply(
        self, step: ShardStep, item: Item, run: Run | CurrentRun, env: Env
    ) -> Reply | _Later:
        intent: Any = item.intent
        if isinstance(intent, intents.StartWorkflow):
            begun = self._start(step, intent, run, env)
            if intent.update is None:
                return begun
            with_start = self._shard.runs[begun.run_id]
            step.after.append(
                partial(later.update, self._shard, step, with_start, item, started=begun.started)
            )
            return LATER
        assert isinstance(run, Run)
        kind = type(intent)
        if kind in later.READ:
            return later.READ[kind](run.state)
        if kind is intents.ResetWorkflow:
            return self._shard.resetting.decide(step, item, run, env)
        if isinstance(intent, intents.FireTimer):  # also when it is refused
            step.after.append(partial(self._shard.timers.fired, intent.wake_us, intent.timer_id))
        if kind is intents.CompleteActivity and intent.ahead is not None:
            intent = self._without_ahead_if_moved(run, intent)
        reply = None if kind in later.UNDECIDED else self._decided(step, run, intent, env)
        after = later.AFTER.get(kind)
        if after is None:
            return reply
        step.after.append(partial(after, self._shard, step, run, item))
        return LATER

    def _decided(self, step: ShardStep, run: Run, intent: intents.Intent, env: Env) -> Reply:
        draft = self.draft_of(step, run, env)
        reply = decide(draft, intent)
        if draft.next_run is not None:
            following, draft.next_run = draft.next_run, None
            follow(self._shard.runs, step, run, following)
        return reply

    def _without_ahead_if_moved(
        self, run: Run, intent: intents.CompleteActivity
    ) -> intents.CompleteActivity:
        """Without what was done ahead, if the run's workflow tasks go to another version of the code by now."""
        assert intent.ahead is not None
        completion = intent.ahead.completion
        version = version_name(completion.deployment_name, completion.build_id)
        if self._shard.queues.version_of_workflow_tasks(run) == version:
            return intent
        return msgspec.structs.replace(intent, ahead=None)

    def draft_of(self, step: ShardStep, run: Run, env: Env) -> Draft:
        entry = step.drafts.get(run.state.run_id)
        if entry is None:
            entry = step.drafts[run.state.run_id] = (run, Draft(run.state, env))
        return entry[1]

    def _start(
        self, step: ShardStep, intent: intents.StartWorkflow, found: Run | CurrentRun, env: Env
    ) -> Started:
        current = found.current if isinstance(found, Run) else found
        named = self._shard.runs.get(intent.run_id)
        if named is not None:
            if not _same_start(named, intent):
                raise run_id_in_use(intent.run_id)
            if named.current.run_id != intent.run_id:
                return Started(intent.run_id, True)  # a repeat, after another run has followed
        if replaces(found, intent):
            now_s = self._shard.rooms.clock.monotonic()
            current.pace = paced(current.pace, intent.workflow_id, now_s)
        existing = self.draft_of(step, found, env) if isinstance(found, Run) else None
        reply, draft = start_workflow.decide(intent, env, existing)
        if draft is not None:
            begin(self._shard.runs, step, current, draft)
        return reply

    # ---- which run an intent is for

    def _run_of(self, item: Item) -> Run | CurrentRun | None:
        """The run in memory (for a start of a new id: its empty current row). None: parked.

        Raises Rejected NOT_FOUND, DATA_LOSS.
        """
        intent = item.intent
        run_id, key = address_of(intent)
        if key is not None:
            current = self._shard.current_of(key)
            if current is None:
                self._shard.loading.park_for_current(key, item)
                return None
            if not current.run_id:
                if isinstance(intent, intents.StartWorkflow):
                    return current
                raise not_found(
                    "WORKFLOW", f"workflow {key[1]!r} does not exist, or is over its retention"
                )
            if isinstance(intent, intents.StartWorkflow) and not self._know_start(current, item):
                return None
            run_id = current.run_id
        run = self._shard.runs.get(run_id)
        if run is not None:
            if key is None:
                require_same_workflow(run, intent)
            self._shard.runs.move_to_end(run_id)
            if type(intent) is intents.ResetWorkflow and not self._shard.resetting.is_ready(
                item, run
            ):
                return None
            return run if key is None else self._shard.updates.run_that_knows(run, item)
        if run_id in self._shard.quarantined:
            self._shard.quarantined.require_not_in(run_id)
        self._shard.loading.park_for_run(run_id, item)
        return None

    def _know_start(self, current: CurrentRun, item: Item) -> bool:
        """A start of an id that was used before may be a repeat, of a run that is not the current one any more.

        False: parked until the run it names has been looked for.
        """
        intent = item.intent
        assert isinstance(intent, intents.StartWorkflow)
        if current.run_id == intent.run_id or intent.run_id in self._shard.runs or item.looked_up:
            return True
        known = self._shard.runs.get(current.run_id)
        if known is not None and known.state.folded.started.request_id == intent.request_id:
            return True
        self._shard.loading.park_for_run(intent.run_id, item)
        return False


class Bug(Exception):
    """A decision about a run raised what is not a refusal; that is its cause."""

    def __init__(self, run: Run | CurrentRun) -> None:
        super().__init__()
        self.run = run


class _Later:
    """The answer comes when something else happens."""


LATER = _Later()


def _same_start(run: Run, intent: intents.StartWorkflow) -> bool:
    return run.state.folded.started.request_id == intent.request_id
