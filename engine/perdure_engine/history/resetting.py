"""Resets: the histories that a decision needs are read first, beside the actor's loop; then it is decided in one turn.

Histories only grow. What was read stays true while the item waits, and what has been added meanwhile is in memory, or
is read in another round. One run's whole history is copied; of the runs that it continued as, and of those only, what
people sent to them is wanted too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, get_args

import msgspec

from perdure_engine.core.decide import reset_workflow
from perdure_engine.core.decide.requests import same_body
from perdure_engine.core.draft import Env
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import ClosingEvent, Event, WorkflowExecutionContinuedAsNew
from perdure_engine.core.intents import Reapply, ResetWorkflow
from perdure_engine.core.replies import Started
from perdure_engine.history.beginning import begin
from perdure_engine.history.reading import read_events
from perdure_engine.history.refusals import run_id_in_use
from perdure_engine.history.run import Run
from perdure_engine.history.work import Item, ShardStep

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

READS_IN_FLIGHT_MAX = (
    2  # of a shard: each may bring 8 MiB into memory, and more when it is unpacked
)
EVENTS_PER_READ = 10_000
RUNS_FOLLOWED_MAX = 100  # that a run has continued as: more are not read for one reset

_KEPT = (*reset_workflow.REAPPLIED, *get_args(ClosingEvent))


class _History(msgspec.Struct, eq=False):
    """What has been read of a run, up to `last_event_id`: all, or what is of use when another run is reset."""

    whole: bool
    events: list[Event] = []
    last_event_id: int = 0
    gone: bool = False  # nothing is saved of the run

    @property
    def is_complete(self) -> bool:
        return self.gone or (bool(self.events) and isinstance(self.events[-1], ClosingEvent))


Histories = dict[bytes, _History]
"""By run id."""


class Resetting:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._waiting: list[tuple[Item, bytes, bool]] = []  # for a place
        self._reading: dict[asyncio.Task[None], Item] = {}

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._reading)

    def drain(self) -> list[Item]:
        """Whatever waits, given up (the shard closes)."""
        items = [item for item, _, _ in self._waiting] + list(self._reading.values())
        for task in self._reading:
            task.cancel()
        self._waiting, self._reading = [], {}
        return items

    # ---- before the decision

    def is_ready(self, item: Item, base: Run) -> bool:
        """Whether everything that the decision needs is in memory. False: parked until more of it is.

        Raises Rejected: the history is too large, or the chain too long.
        """
        shard, intent = self._shard, item.intent
        assert isinstance(intent, ResetWorkflow)
        if intent.new_run_id in shard.runs:
            return True  # asked again
        if not item.looked_up:
            shard.loading.park_for_run(intent.new_run_id, item)
            return False
        key = (intent.namespace_id, intent.workflow_id)
        current = shard.current_of(key)
        if current is None:
            shard.loading.park_for_current(key, item)
            return False
        reset_workflow.require_target_of_job(intent, base.state, current.run_id)
        if current.run_id and current.run_id not in shard.runs:
            if current.run_id in shard.quarantined:
                shard.quarantined.require_not_in(current.run_id)
            shard.loading.park_for_run(current.run_id, item)
            return False
        reset_workflow.require_size(base.state.history_bytes)
        item.size = base.state.history_bytes  # a batch has room for one that is large
        missing = self._missing(item, base.state.run_id)
        if missing:
            self._park(item, missing, missing == base.state.run_id)
        return not missing

    def _missing(self, item: Item, base_run_id: bytes) -> bytes:
        """The first run whose history is not all here; b"": nothing is missing."""
        run_id = base_run_id
        for _ in range(RUNS_FOLLOWED_MAX):
            events = self._events(item, run_id, run_id == base_run_id)
            if events is None:
                return run_id
            run_id = _next_run(item, events)
            if not run_id:
                return b""
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "CHAIN_TOO_LONG",
            f"the run has continued as more than {RUNS_FOLLOWED_MAX} others; reset a later one, "
            "or leave out signals and updates",
        )

    def _events(self, item: Item, run_id: bytes, whole: bool) -> list[Event] | None:
        """What is saved of a run: what was read, and what is in memory behind it. None: something is missing."""
        read = (item.histories or {}).get(run_id)
        if read is not None and whole and not read.whole:
            read = None
        if read is not None and read.is_complete:
            return read.events
        run = self._shard.runs.get(run_id)
        if run is None:
            return None
        tail = run.events_past(read.last_event_id if read is not None else 0)
        return None if tail is None else [*(read.events if read is not None else ()), *tail]

    def _park(self, item: Item, run_id: bytes, whole: bool) -> None:
        if len(self._reading) >= READS_IN_FLIGHT_MAX:
            self._waiting.append((item, run_id, whole))
            return
        task = asyncio.get_running_loop().create_task(self._read(item, run_id, whole))
        self._reading[task] = item
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._reading.pop(task, None)
        if self._waiting and not self._shard.closed:
            self._park(*self._waiting.pop(0))

    async def _read(self, item: Item, run_id: bytes, whole: bool) -> None:
        """All that is saved of a run now, from where the last reading ended."""
        shard = self._shard
        item.histories = histories = {} if item.histories is None else item.histories
        history = histories.get(run_id)
        if history is None or history.whole < whole:
            history = _History(whole, [])
        try:
            while page := await read_events(
                shard, run_id, history.last_event_id + 1, EVENTS_PER_READ
            ):
                history.last_event_id = page[-1].event_id
                history.events += (
                    page if history.whole else [e for e in page if isinstance(e, _KEPT)]
                )
        except Rejected as refusal:
            item.refuse(refusal)
            return
        history.gone = not history.last_event_id
        histories[run_id] = history
        if not shard.closed:
            shard.put_again([item])
            shard.work_waits()

    # ---- the decision

    def decide(self, step: ShardStep, item: Item, base: Run, env: Env) -> Started:
        """`is_ready` has just said yes."""
        shard, intent = self._shard, item.intent
        assert isinstance(intent, ResetWorkflow)
        known = shard.runs.get(intent.new_run_id)
        if known is not None:
            return _asked_again(intent, known)
        current = shard.current_of((intent.namespace_id, intent.workflow_id))
        assert current is not None
        last = shard.runs[current.run_id] if current.run_id else None
        base_draft = shard.deciding.draft_of(step, base, env)
        last_draft = shard.deciding.draft_of(step, last, env) if last is not None else None
        histories = self._histories(step, item, base.state.run_id)
        history = histories.pop(base.state.run_id)
        reply, draft = reset_workflow.decide(
            intent,
            env,
            base_draft,
            last_draft,
            history,
            [event for events in histories.values() for event in events],
            continues=current.run_id in histories,
        )
        # the run that this decision ends, and the one that it begins, must mean the same row
        begin(shard.runs, step, current if last is None else last.current, draft)
        return reply

    def _histories(
        self, step: ShardStep, item: Item, base_run_id: bytes
    ) -> dict[bytes, list[Event]]:
        """Of the base and the runs that it continued as, in order: with what this step has decided already."""
        histories: dict[bytes, list[Event]] = {}
        run_id = base_run_id
        while run_id:
            saved = self._events(item, run_id, run_id == base_run_id) or []
            decided = step.drafts[run_id][1].events if run_id in step.drafts else ()
            histories[run_id] = [*saved, *decided]
            run_id = _next_run(item, histories[run_id])
        return histories


def _next_run(item: Item, events: list[Event]) -> bytes:
    """The run that this one continued as, if what was sent to it is wanted."""
    intent = item.intent
    assert isinstance(intent, ResetWorkflow)
    last = events[-1] if events else None
    if not isinstance(last, WorkflowExecutionContinuedAsNew):
        return b""
    return b"" if intent.reapply_exclude >= frozenset(Reapply) else last.new_run_id


def _asked_again(intent: ResetWorkflow, known: Run) -> Started:
    started = known.state.folded.started
    if started.request_id != intent.request_id:
        raise run_id_in_use(intent.new_run_id)
    same_body(started.body_hash, intent.body_hash)
    return Started(intent.new_run_id, True)
