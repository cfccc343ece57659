"""Queries: they read a state that includes every write acknowledged before the call, and never write.

A run whose workflow task is scheduled or out answers with that task; any other answers a task that carries only
the query. A run that is paused answers as its code last saw it: what came in since waits for the code, and no query
sees it. A run whose code crashes its workers answers none. Queries live in memory: a caller whose shard moves asks
again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, assert_never

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowTaskCompleted
from perdure_engine.core.ids import queue_number
from perdure_engine.core.intents import QueryRejectCondition, QueryWorkflow
from perdure_engine.core.replies import QueryAnswer
from perdure_engine.core.state import WORKFLOW_TASK_KEY, version_ran_on
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.core.tokens import QueryToken
from perdure_engine.history import handout
from perdure_engine.history.run import PendingQuery, Run
from perdure_engine.history.work import Item
from perdure_engine.ports.history import Handed, HandedQuery, HandedWorkflowTask, WorkerRef
from perdure_engine.ports.matching import TaskOffer

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

OFFER_AGAIN_S = 1.0


class Queries:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._runs: dict[int, Run] = {}  # by query number
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, run: Run, item: Item) -> None:
        """After the commit of everything decided before: route the query to a worker."""
        intent, future = item.intent, item.future
        assert isinstance(intent, QueryWorkflow)
        if future is None or future.done():
            return
        if not run.state.open and _rejects(intent.reject_condition, run.state.folded.status):
            item.refuse(_rejected(run.state.folded.status))
            return
        if self._is_refused(run, item):
            return
        queue = run.state.folded.started.task_queue
        if not self._shard.rooms.matching.has_pollers(
            intent.namespace_id,
            queue,
            TaskKind.WORKFLOW,
            self._shard.queues.version_of_workflow_tasks(run),
        ):
            item.refuse(
                Rejected(
                    Code.FAILED_PRECONDITION,
                    "NO_POLLERS",
                    f"no worker polls the task queue {queue!r}",
                )
            )
            return
        query = PendingQuery(self._shard.new_number(), intent, item)
        run.queries[query.query_no] = query
        self._runs[query.query_no] = run
        future.add_done_callback(lambda _: self._over(run, query.query_no))
        self._route(run, query)
        self._watch()

    def answer(self, token: QueryToken, answer: QueryAnswer) -> bool:
        run = self._runs.get(token.query_no)
        query = run.queries.get(token.query_no) if run is not None else None
        if query is None or query.item.future is None or query.item.future.done():
            return False
        query.item.answer(answer)
        return True

    def attach(self, run: Run, worker: WorkerRef) -> list[HandedQuery]:
        """Queries that travel with the workflow task that is handed out now."""
        return [self._hand(query, worker) for query in run.queries.values() if not query.out]

    def run_changed(self, run: Run, draft: Draft) -> None:
        """A commit may have ended the workflow task that queries waited for, or that had them with it."""
        came_to_nothing = any(
            record.kind is TaskKind.WORKFLOW for record in (*draft.gone_tasks, *draft.tasks)
        ) and not any(isinstance(event, WorkflowTaskCompleted) for event in draft.events)
        for query in list(run.queries.values()):
            if came_to_nothing:
                query.out = False  # whoever had it will not answer
            if not query.out:
                self._route(run, query)

    def hand_out(
        self, run: Run, offer: TaskOffer, worker: WorkerRef
    ) -> HandedWorkflowTask | asyncio.Future[Handed | None] | None:
        query = run.queries.get(offer.query_no)
        if query is None or query.out or self._task_will_carry(run):
            return None
        return handout.query_only_task(self._shard, run, worker, [self._hand(query, worker)])

    def put_back(self, handed: HandedWorkflowTask, *, at_once: bool) -> None:
        for given in handed.queries:
            run = self._runs.get(given.token.query_no)
            query = run.queries.get(given.token.query_no) if run is not None else None
            if run is not None and query is not None:
                query.out = False
                if at_once:
                    self._route(run, query)
                else:
                    self._watch()

    def worker_gone(self, worker_id: bytes) -> None:
        """The worker may be dead: what it was asked is asked of another, and the first answer counts."""
        for run in list(dict.fromkeys(self._runs.values())):
            for query in list(run.queries.values()):
                if query.out and query.worker_id == worker_id:
                    query.out = False
                    self._route(run, query)

    def take_back(self, run: Run) -> list[Item]:
        """The run leaves memory: its unanswered queries start over."""
        items = [query.item for query in run.queries.values()]
        for query_no in run.queries:
            self._runs.pop(query_no, None)
        run.queries.clear()
        return items

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        """Offers of queries are lost when nothing may be handed out (a lease in doubt): they are repeated."""
        if self._timer is None and not self._shard.closed:
            self._timer = asyncio.get_running_loop().call_later(OFFER_AGAIN_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for query_no, run in list(self._runs.items()):
            query = run.queries.get(query_no)
            if query is not None and not query.out and not run.busy:
                self._route(run, query)
        if self._runs:
            self._watch()

    def _over(self, run: Run, query_no: int) -> None:
        run.queries.pop(query_no, None)
        self._runs.pop(query_no, None)

    def _hand(self, query: PendingQuery, worker: WorkerRef) -> HandedQuery:
        query.out = True
        query.worker_id = worker.worker_id
        token = QueryToken(self._shard.shard_id, query.intent.run_id, query.query_no)
        return HandedQuery(token, query.intent.query_type, query.intent.args, query.intent.header)

    def _task_will_carry(self, run: Run) -> bool:
        task = run.state.tasks.get(WORKFLOW_TASK_KEY)
        return task is not None and task.state is not TaskState.PAUSED

    def _is_refused(self, run: Run, item: Item) -> bool:
        """Its code would take another worker with it, and nobody would count that."""
        task = run.state.tasks.get(WORKFLOW_TASK_KEY)
        if task is None or not task.isolated:
            return False
        item.refuse(
            Rejected(
                Code.FAILED_PRECONDITION,
                "WORKFLOW_POISONED",
                f"the workflow's code has crashed its workers {task.crash_count} times in a row",
            )
        )
        return True

    def _route(self, run: Run, query: PendingQuery) -> None:
        if self._is_refused(run, query.item):
            return
        task = run.state.tasks.get(WORKFLOW_TASK_KEY)
        if run.state.folded.paused is not None and not run.state.folded.previous_started_id:
            query.item.refuse(
                Rejected(
                    Code.FAILED_PRECONDITION,
                    "WORKFLOW_PAUSED",
                    "the workflow was paused before its code began: it has no state to query",
                )
            )
            return
        if task is not None and task.state is not TaskState.PAUSED:
            if task.state is TaskState.BACKOFF:
                reason = (
                    task.last_failure.message if task.last_failure is not None else "it timed out"
                )
                query.item.refuse(
                    Rejected(
                        Code.FAILED_PRECONDITION,
                        "WORKFLOW_TASK_FAILING",
                        f"the workflow task keeps failing: {reason}",
                    )
                )
            return
        started = run.state.folded.started
        version = self._shard.queues.version_of_workflow_tasks(run)
        sticky = run.state.sticky_worker_id
        if sticky and version != version_ran_on(run.state.folded):
            sticky = b""
        queue_no = queue_number(started.namespace_id, TaskKind.WORKFLOW, started.task_queue)
        self._shard.rooms.matching.offer(
            [
                TaskOffer(
                    self._shard.shard_id,
                    started.namespace_id,
                    TaskKind.WORKFLOW,
                    started.task_queue,
                    queue_no,
                    0,
                    started.run_id,
                    0,
                    1,
                    sticky,
                    self._shard.rooms.database_clock.low_us(),
                    query.query_no,
                    version,
                )
            ]
        )


def _rejects(condition: QueryRejectCondition, status: Status) -> bool:
    """Of a run that has closed."""
    match condition:
        case QueryRejectCondition.NEVER:
            return False
        case QueryRejectCondition.NOT_OPEN:
            return True
        case QueryRejectCondition.NOT_COMPLETED_CLEANLY:
            return status is not Status.COMPLETED
        case _:
            assert_never(condition)


def _rejected(status: Status) -> Rejected:
    return Rejected(
        Code.FAILED_PRECONDITION,
        "QUERY_REJECTED",
        f"the caller does not want to query a run that is {status.name}",
        metadata={"status": str(int(status))},
    )
