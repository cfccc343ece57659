"""Intents whose answer comes after the commit, or long after: what is done then for each kind.

Each function is called once the step is saved, and answers the item or keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.explain import explain
from perdure_engine.core.replies import Reply
from perdure_engine.core.state import RunState
from perdure_engine.history.removing import Leaving
from perdure_engine.history.run import Run
from perdure_engine.history.waits import wait_events, wait_result
from perdure_engine.history.work import Item, ShardStep

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard


def _wait_result(_: Shard, __: ShardStep, run: Run, item: Item) -> None:
    wait_result(run, item)


def _wait_events(_: Shard, __: ShardStep, run: Run, item: Item) -> None:
    assert isinstance(item.intent, intents.WaitEvents)
    wait_events(run, item, item.intent.after_event_id)


def _query(shard: Shard, _: ShardStep, run: Run, item: Item) -> None:
    shard.queries.ask(run, item)


def _delete(shard: Shard, _: ShardStep, run: Run, item: Item) -> None:
    started = run.state.folded.started
    shard.removing.add(
        Leaving(
            started.run_id,
            started.namespace_id,
            started.workflow_id,
            run.state.history_bytes,
            [item],
            run.state.folded.status,
        )
    )


def update(shard: Shard, step: ShardStep, run: Run, item: Item, *, started: bool = False) -> None:
    """`started`: of an update-with-start, whether the run began with it."""
    _, draft = step.drafts.get(run.state.run_id, (run, None))
    shard.updates.wait(run, item, draft, started=started)


AFTER: dict[type, Callable[[Shard, ShardStep, Run, Item], None]] = {
    intents.WaitResult: _wait_result,
    intents.WaitEvents: _wait_events,
    intents.QueryWorkflow: _query,
    intents.DeleteWorkflow: _delete,
    intents.UpdateWorkflow: update,
    intents.PollUpdate: update,
}
"""By kind of intent. What is not here is answered with what was decided."""

UNDECIDED = frozenset(
    (intents.WaitResult, intents.WaitEvents, intents.QueryWorkflow, intents.PollUpdate)
)
"""They change nothing."""

READ: dict[type, Callable[[RunState], Reply]] = {
    intents.DescribeWorkflow: describe,
    intents.ExplainWorkflow: explain,
}
"""Read from the state at once; answered after the commit, like everything."""
