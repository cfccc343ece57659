"""Running workflows and activities.

    worker = Worker(client, task_queue="greetings", workflows=[Greet], activities=[compose])
    await worker.run()

A worker runs on the event loop of its client, any loop; uvloop makes it somewhat cheaper:
`uvloop.run(main())`. So do `tune_garbage_collector()` and `tune_grpc()` in a process that runs
nothing else.
Workflow code and async activities share that loop, sync activities run in threads, and a thread of
its own tells the engine every 2 s what the worker holds, whatever the loop is doing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from perdure._definitions import workflow_definition
from perdure._interceptors.activity import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
)
from perdure._interceptors.worker import Interceptor
from perdure._interceptors.workflow import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from perdure._replay.guard import guard_workflows
from perdure._replayer import Replayer, WorkflowReplayResult, WorkflowReplayResults
from perdure._versioning import VersioningBehavior, WorkerDeploymentConfig, WorkerDeploymentVersion
from perdure._wire.worker_service import WorkerIdentity
from perdure._worker.compatible import (
    SandboxedWorkflowRunner,
    SharedStateManager,
    TuningOptions,
    UnsandboxedWorkflowRunner,
    WorkflowRunner,
    check_options,
)
from perdure._worker.isolation import program, room
from perdure._worker.isolation.bootstrap import refuse_worker_in_bootstrap
from perdure._worker.isolation.surgical import SurgicalPool
from perdure._worker.process_tuning import tune_garbage_collector, tune_grpc
from perdure._worker.processes import check_picklable
from perdure._worker.recipe import Code, Recipe
from perdure._worker.rooms import WorkerRooms, WorkerSettings, WorkerUsage
from perdure._worker_plugins import (
    Plugin,
    ReplayerConfig,
    WorkerConfig,
    configured_worker,
    running_worker,
)
from perdure.client import Client

__all__ = [
    "ActivityInboundInterceptor",
    "ActivityOutboundInterceptor",
    "ContinueAsNewInput",
    "ExecuteActivityInput",
    "ExecuteWorkflowInput",
    "HandleQueryInput",
    "HandleSignalInput",
    "HandleUpdateInput",
    "Interceptor",
    "Plugin",
    "Replayer",
    "ReplayerConfig",
    "SandboxedWorkflowRunner",
    "SharedStateManager",
    "SignalChildWorkflowInput",
    "SignalExternalWorkflowInput",
    "StartActivityInput",
    "StartChildWorkflowInput",
    "StartLocalActivityInput",
    "SurgicalPool",
    "UnsandboxedWorkflowRunner",
    "Worker",
    "WorkerConfig",
    "WorkerDeploymentConfig",
    "WorkerDeploymentVersion",
    "WorkerUsage",
    "WorkflowInboundInterceptor",
    "WorkflowInterceptorClassInput",
    "WorkflowOutboundInterceptor",
    "WorkflowReplayResult",
    "WorkflowReplayResults",
    "WorkflowRunner",
    "tune_garbage_collector",
    "tune_grpc",
]

_WORKER_ID_BYTES = 16
_DEFAULT_RUNNER = SandboxedWorkflowRunner()
_DEFAULT_SURGICAL = SurgicalPool()


class Worker:
    """Polls one task queue. Runs once: `run` until `shutdown`, or `async with`.

    When it is shut down (or `run` is cancelled) it takes no more tasks, gives running activities
    `graceful_shutdown_timeout` to end, asks the rest to stop, and gives back to the engine what
    then is unfinished, to be run elsewhere at once.

    Sync activities run in `activity_executor`, by default threads of the worker's own, as many as
    `max_concurrent_activities`. In a `ProcessPoolExecutor` they can be heartbeating, checkpointing
    and cancelled as well; function, arguments and result must be picklable. Make the pool with the
    start method "forkserver" or "spawn": gRPC does not survive a fork.
    `workflow_failure_exception_types` are, for all workflows of this worker, exceptions that fail
    the run although by their kind they would only fail the workflow task and have it retried.
    `interceptors` are around what runs, the first one outermost, inside of those of the client that
    are for workers; `plugins` may change all of this, after those of the client that are.
    `deployment_config` says of which version the worker is, and whether it takes the tasks of that
    version only. When its version is retired, `run` ends with RPCError FAILED_PRECONDITION.
    `max_cached_workflows` runs (1,000) stay in memory between their tasks. Where an activity of one
    returns in the same worker its code goes on at once, ahead of the workflow task, and both are
    saved together; what the engine does not go along with is done anew.
    `debug_mode` is for a debugger: workflow code may stop as long as it likes. So does a
    PERDURE_DEBUG in the environment. With either, or with 0 cached runs, nothing is done ahead.
    `on_fatal_error` is called before `run` raises. The options of Temporal's worker that tune what
    is not here are taken and do nothing.

    A task that has taken two workers down in a row runs in a process of its own, in which activities
    are threads whatever `activity_executor` is; after the third it is poisoned, and only the surgical
    pool gets it. `surgical` is what this worker has for it besides its other tasks, by default one
    place with 1 GiB of memory (None: nothing); with `pool="surgical"` it has nothing else.
    For such a task the program is started again, as a service manager does after a crash, where and
    with what environment this one has begun: everything runs that it does before the worker is
    entered and beside it, and nothing of what comes then. Where that is no way (a session, a run of
    tests, a thread that is not the main one, a process of `multiprocessing`, a program that binds a
    port that this one has), what can be pickled is imported in a new process instead.
    Interceptors and converters work in those processes, codecs do not.
    """

    made_of: WorkerConfig
    """For this package: what `config` returns. Set by `configured_worker`."""
    _rooms: WorkerRooms | None = None
    _started = False
    _background: asyncio.Task[None] | None = None
    _body: asyncio.Task[Any] | None = None

    @configured_worker
    def __init__(
        self,
        client: Client,
        *,
        task_queue: str,
        workflows: Sequence[type] = (),
        activities: Sequence[Callable[..., Any]] = (),
        activity_executor: Executor | None = None,
        max_cached_workflows: int = 1000,
        max_concurrent_workflow_tasks: int = 100,
        max_concurrent_activities: int = 100,
        max_concurrent_local_activities: int = 100,
        workflow_failure_exception_types: Sequence[type[BaseException]] = (),
        graceful_shutdown_timeout: timedelta = timedelta(seconds=10),
        identity: str | None = None,
        build_id: str = "",
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
        deployment_config: WorkerDeploymentConfig | None = None,
        workflow_runner: WorkflowRunner = _DEFAULT_RUNNER,
        debug_mode: bool = False,
        on_fatal_error: Callable[[BaseException], Awaitable[None]] | None = None,
        pool: Literal["normal", "surgical"] = "normal",
        surgical: SurgicalPool | None = _DEFAULT_SURGICAL,
        **tuning: Unpack[TuningOptions],
    ) -> None:
        """Raises TypeError or ValueError for what cannot be run."""
        refuse_worker_in_bootstrap()
        check_options(tuning, "Worker")
        if not workflows and not activities:
            raise ValueError("a worker needs a workflow or an activity")
        _check_places(
            max_concurrent_workflow_tasks,
            max_concurrent_local_activities,
            max_concurrent_activities,
        )
        self._plugins, self._client, self._on_fatal_error = plugins, client, on_fatal_error
        code = Code(
            Recipe(
                task_queue=task_queue,
                identity=_identity(client, identity, build_id, deployment_config),
                workflows=workflows,
                activities=activities,
                data_converter=client.data_converter,
                interceptors=_with_inherited(client, interceptors),
                failure_exception_types=tuple(workflow_failure_exception_types),
                guarded=workflow_runner.guarded,
                default_behavior=_default_behavior(deployment_config, workflows),
                local_activities_at_once=max_concurrent_local_activities,
                hides_messages=client.core.edge.encodes_failures,
                watches_deadlocks=not (debug_mode or os.environ.get("PERDURE_DEBUG")),
            )
        )
        if isinstance(activity_executor, ProcessPoolExecutor):
            check_picklable(code.activities.all, code.recipe.converter)
        executor = activity_executor or _threads(max_concurrent_activities)
        self._own_executor = executor if activity_executor is None else None
        self._settings = WorkerSettings(
            code=code,
            surgical=surgical,
            executor=executor,
            workflow_slots=max_concurrent_workflow_tasks if workflows else 0,
            activity_slots=max_concurrent_activities if activities else 0,
            polls_normal_pool=_is_normal(pool, surgical),
            cached_runs_max=max_cached_workflows,
            edge=client.core.edge,
            graceful_shutdown_timeout=graceful_shutdown_timeout,
        )
        guard_workflows(workflows)
        self._stop_requested, self._stopped = asyncio.Event(), asyncio.Event()

    @property
    def task_queue(self) -> str:
        return self._settings.code.recipe.task_queue

    @property
    def identity(self) -> str:
        return self._settings.code.recipe.identity.identity

    def config(self) -> WorkerConfig:
        """What it is made of, after its plug-ins."""
        return self.made_of.copy()

    def usage(self) -> WorkerUsage:
        """What it holds now; all 0 before it runs."""
        return WorkerUsage() if self._rooms is None else self._rooms.usage()

    @property
    def is_running(self) -> bool:
        return self._started and not self._stopped.is_set()

    @property
    def is_shutdown(self) -> bool:
        return self._stopped.is_set()

    @property
    def client(self) -> Client:
        return self._client

    async def run(self) -> None:
        """Returns after `shutdown`, when everything has ended.

        Raises RPCError when polling makes no sense, such as NOT_FOUND for the namespace, and
        BrokenExecutor when a process of `activity_executor` has died. While the
        engine is away it keeps trying.
        """
        self._claim()
        await self._run_inside_plugins()

    def _claim(self) -> None:
        if self._started:
            raise RuntimeError("a worker runs once; make another one")
        self._started = True

    async def _run_inside_plugins(self) -> None:
        try:
            await running_worker(self._plugins, Worker._run)(self)
        finally:
            self._stopped.set()  # also when a plug-in has kept it from running

    async def _run(self) -> None:
        if program.summons is not None:
            await room.answer(program.summons, self._settings.code)
        core = self._client.core
        rooms = self._rooms = WorkerRooms(core.connection, self._settings, core.surroundings)
        polling = asyncio.ensure_future(rooms.poll())
        stop_requested = asyncio.ensure_future(self._stop_requested.wait())
        try:
            await asyncio.wait((polling, stop_requested), return_when=asyncio.FIRST_COMPLETED)
        finally:
            polling.cancel()
            stop_requested.cancel()
            await asyncio.wait((polling, stop_requested))
            try:
                await rooms.stop()
            finally:
                if self._own_executor is not None:
                    self._own_executor.shutdown(wait=False, cancel_futures=True)
                self._stopped.set()
        if polling.cancelled():
            return
        error = polling.exception()
        if error is not None and self._on_fatal_error is not None:
            await self._on_fatal_error(error)
        polling.result()

    async def shutdown(self) -> None:
        """Asks the worker to stop and waits until it has. Stopping twice is fine."""
        self._stop_requested.set()
        if self._started:
            await self._stopped.wait()

    async def __aenter__(self) -> Self:
        """Runs in the background; the body is cancelled should the worker fail."""
        self._claim()
        summons = program.summons
        if summons is not None and summons.wanted.is_met_by(self._settings.code):
            await self._run_inside_plugins()  # the body is for the process of the whole worker
        self._body = asyncio.current_task()
        self._background = asyncio.create_task(self._run_inside_plugins())
        self._background.add_done_callback(self._cancel_body_of_failed)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        body, self._body = self._body, None
        background = self._background
        assert background is not None
        failed_before = background.done()
        self._stop_requested.set()
        await asyncio.wait((background,))
        if failed_before and body is not None and isinstance(error, asyncio.CancelledError):
            body.uncancel()
        background.result()

    def _cancel_body_of_failed(self, background: asyncio.Task[None]) -> None:
        failed = not background.cancelled() and background.exception() is not None
        if failed and self._body is not None:
            self._body.cancel()


def _identity(
    client: Client,
    identity: str | None,
    build_id: str,
    config: WorkerDeploymentConfig | None,
) -> WorkerIdentity:
    if build_id and config is not None:
        raise ValueError("give build_id or deployment_config, not both")
    versioned = config is not None and config.use_worker_versioning
    return WorkerIdentity(
        namespace=client.namespace,
        worker_id=os.urandom(_WORKER_ID_BYTES),
        identity=identity or client.identity,
        build_id=build_id if config is None else config.version.build_id,
        deployment_name=config.version.deployment_name if config is not None and versioned else "",
    )


def _default_behavior(
    config: WorkerDeploymentConfig | None, workflows: Sequence[type]
) -> VersioningBehavior:
    """Raises ValueError for a workflow that says none where one is needed."""
    if config is None or not config.use_worker_versioning:
        return VersioningBehavior.UNSPECIFIED
    default = config.default_versioning_behavior
    for workflow in workflows:
        definition = workflow_definition(workflow)
        if not definition.versioning_behavior and not default:
            raise ValueError(
                f"{definition.name} says no versioning_behavior, which a worker with a version "
                "needs: give it to @workflow.defn, or default_versioning_behavior to the worker"
            )
    return default


def _with_inherited(client: Client, own: Sequence[Interceptor]) -> list[Interceptor]:
    inherited = [one for one in client.core.interceptors if isinstance(one, Interceptor)]
    return [*inherited, *own]


def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="perdure-activity")


def _is_normal(pool: str, surgical: SurgicalPool | None) -> bool:
    """Does the worker take tasks of the normal pool? Raises ValueError."""
    if pool not in ("normal", "surgical"):
        raise ValueError(f'a worker\'s pool is "normal" or "surgical", not {pool!r}')
    if pool == "surgical" and surgical is None:
        raise ValueError('pool="surgical" needs surgical=SurgicalPool(...), and not None')
    return pool == "normal"


def _check_places(*places: int) -> None:
    if min(places) < 1:
        raise ValueError("a worker needs at least one place for each kind of task")
