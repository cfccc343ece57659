"""What a plug-in may change of a worker or a replayer, and how it runs around them."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, TypeVar, cast

from perdure._client.history import WorkflowHistory
from perdure._interceptors.worker import Interceptor
from perdure._versioning import WorkerDeploymentConfig
from perdure._worker.compatible import WorkflowRunner
from perdure._worker.isolation.surgical import SurgicalPool
from perdure.converter import DataConverter

if TYPE_CHECKING:
    from perdure._replayer import Replayer, WorkflowReplayResult
    from perdure.client import Client
    from perdure.worker import Worker


class WorkerConfig(TypedDict):
    """The arguments of `Worker`, all of them: those that were not given have their defaults."""

    client: Client
    task_queue: str
    workflows: Sequence[type]
    activities: Sequence[Callable[..., Any]]
    activity_executor: Executor | None
    max_cached_workflows: int
    max_concurrent_workflow_tasks: int
    max_concurrent_activities: int
    max_concurrent_local_activities: int
    workflow_failure_exception_types: Sequence[type[BaseException]]
    graceful_shutdown_timeout: timedelta
    identity: str | None
    build_id: str
    interceptors: Sequence[Interceptor]
    deployment_config: WorkerDeploymentConfig | None
    workflow_runner: WorkflowRunner
    debug_mode: bool
    on_fatal_error: Callable[[BaseException], Awaitable[None]] | None
    pool: Literal["normal", "surgical"]
    surgical: SurgicalPool | None
    plugins: NotRequired[Sequence[str]]
    """Their names, in what `Worker.config` returns."""


class ReplayerConfig(TypedDict):
    """The arguments of `Replayer`, likewise."""

    workflows: Sequence[type]
    namespace: str
    data_converter: DataConverter
    workflow_failure_exception_types: Sequence[type[BaseException]]
    interceptors: Sequence[Interceptor]
    plugins: NotRequired[Sequence[str]]
    """Their names, in what `Replayer.config` returns."""


class Plugin:
    """Of a worker; override what is of interest. One that is a `perdure.client.Plugin` too is given
    to the client only: every worker of that client takes it from there."""

    def name(self) -> str:
        """For people."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Returns what the worker is to be made of; called in the order of the plug-ins."""
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Runs the worker, by `next`, until it is shut down; the first plug-in is the outermost."""
        await next(worker)

    def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]:
        """Around the replay of all these histories."""
        return next(replayer, histories)


RunWorker = Callable[["Worker"], Awaitable[None]]
RunReplayer = Callable[
    ["Replayer", AsyncIterator[WorkflowHistory]],
    "AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]",
]


def plugins_of(of_client: Sequence[Any], own: Sequence[Plugin]) -> list[Plugin]:
    """Those of the client that are for workers, then the worker's own."""
    inherited = [one for one in of_client if isinstance(one, Plugin)]
    twice = {type(one) for one in inherited} & {type(one) for one in own}
    for kind in twice:
        warnings.warn(
            f"plug-in {kind.__qualname__} is given to the client and to the worker: it runs twice",
            stacklevel=3,
        )
    return [*inherited, *own]


_Init = TypeVar("_Init", bound=Callable[..., None])


def configured_worker(init: _Init) -> _Init:
    """Around `Worker.__init__`: plug-ins see all that it is given, and may change it first. It is
    given those of its client, too."""

    @wraps(init)
    def configured(self: Worker, client: Client, **given: Any) -> None:
        plugins = plugins_of(client.core.plugins, given.pop("plugins", ()))
        all_of_it = {**(init.__kwdefaults__ or {}), **given, "client": client}
        del all_of_it["plugins"]
        config = cast(WorkerConfig, all_of_it)
        for plugin in plugins:
            config = plugin.configure_worker(config)
        init(self, plugins=plugins, **cast("dict[str, Any]", config))
        config["plugins"] = [plugin.name() for plugin in plugins]
        self.made_of = config

    return cast(_Init, configured)


def configured_replayer(init: _Init) -> _Init:
    """The same around `Replayer.__init__`."""

    @wraps(init)
    def configured(self: Replayer, **given: Any) -> None:
        plugins: Sequence[Plugin] = given.pop("plugins", ())
        all_of_it = {**(init.__kwdefaults__ or {}), **given}
        del all_of_it["plugins"]
        config = cast(ReplayerConfig, all_of_it)
        for plugin in plugins:
            config = plugin.configure_replayer(config)
        init(self, plugins=plugins, **cast("dict[str, Any]", config))
        config["plugins"] = [plugin.name() for plugin in plugins]
        self.made_of = config

    return cast(_Init, configured)


def running_worker(plugins: Sequence[Plugin], run: RunWorker) -> RunWorker:
    """`run`, inside of all plug-ins."""

    def inside(plugin: Plugin, next: RunWorker) -> RunWorker:
        return lambda worker: plugin.run_worker(worker, next)

    for plugin in reversed(plugins):
        run = inside(plugin, run)
    return run


def running_replayer(plugins: Sequence[Plugin], run: RunReplayer) -> RunReplayer:
    """The same of a replayer."""

    def inside(plugin: Plugin, next: RunReplayer) -> RunReplayer:
        return lambda replayer, histories: plugin.run_replayer(replayer, histories, next)

    for plugin in reversed(plugins):
        run = inside(plugin, run)
    return run
