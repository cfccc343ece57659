"""Plug-ins: what belongs together for a client and its workers, given to both at once.

plugin = SimplePlugin("tracing", client_interceptors=[TracingInterceptor()])
client = await Client.connect(plugins=[plugin])    # its workers have it too
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import perdure.client
import perdure.worker
from perdure.client import ClientConfig, WorkflowHistory
from perdure.converter import DataConverter
from perdure.worker import (
    Replayer,
    ReplayerConfig,
    Worker,
    WorkerConfig,
    WorkflowReplayResult,
)

__all__ = ["Plugin", "SimplePlugin"]

T = TypeVar("T")

RunContext = Callable[[], AbstractAsyncContextManager[None]]


class Plugin(perdure.client.Plugin, perdure.worker.Plugin):
    """Of a client and of the workers of that client."""


class SimplePlugin(Plugin):
    """A plug-in made of what it brings. Sequences are put behind those that are there; a function
    instead gets what is there and returns what shall be."""

    def __init__(
        self,
        name: str,
        *,
        data_converter: DataConverter | Callable[[DataConverter], DataConverter] | None = None,
        client_interceptors: Sequence[perdure.client.Interceptor]
        | Callable[[Sequence[perdure.client.Interceptor]], Sequence[perdure.client.Interceptor]]
        | None = None,
        activities: Sequence[Callable[..., Any]]
        | Callable[[Sequence[Callable[..., Any]]], Sequence[Callable[..., Any]]]
        | None = None,
        workflows: Sequence[type] | Callable[[Sequence[type]], Sequence[type]] | None = None,
        worker_interceptors: Sequence[perdure.worker.Interceptor]
        | Callable[[Sequence[perdure.worker.Interceptor]], Sequence[perdure.worker.Interceptor]]
        | None = None,
        workflow_failure_exception_types: Sequence[type[BaseException]]
        | Callable[[Sequence[type[BaseException]]], Sequence[type[BaseException]]]
        | None = None,
        run_context: RunContext | None = None,
    ) -> None:
        """`data_converter` goes to clients and replayers, `run_context` around the run of workers
        and of replays."""
        self._name = name
        self._data_converter = data_converter
        self._client_interceptors = client_interceptors
        self._activities = activities
        self._workflows = workflows
        self._worker_interceptors = worker_interceptors
        self._failure_exception_types = workflow_failure_exception_types
        self._run_context = run_context

    def name(self) -> str:
        return self._name

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        config["data_converter"] = self._converter(config["data_converter"])
        config["interceptors"] = _more(config["interceptors"], self._client_interceptors)
        return config

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config["activities"] = _more(config.get("activities", ()), self._activities)
        config["workflows"] = _more(config.get("workflows", ()), self._workflows)
        config["interceptors"] = _more(config["interceptors"], self._worker_interceptors)
        config["workflow_failure_exception_types"] = _more(
            config["workflow_failure_exception_types"], self._failure_exception_types
        )
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        config["data_converter"] = self._converter(config["data_converter"])
        config["workflows"] = _more(config.get("workflows", ()), self._workflows)
        config["interceptors"] = _more(config["interceptors"], self._worker_interceptors)
        config["workflow_failure_exception_types"] = _more(
            config["workflow_failure_exception_types"], self._failure_exception_types
        )
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        if self._run_context is None:
            await next(worker)
            return
        async with self._run_context():
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
        context = self._run_context
        if context is None:
            return next(replayer, histories)

        @asynccontextmanager
        async def opened() -> AsyncGenerator[AsyncIterator[WorkflowReplayResult], None]:
            async with context(), next(replayer, histories) as results:
                yield results

        return opened()

    def _converter(self, there: DataConverter) -> DataConverter:
        given = self._data_converter
        if given is None:
            return there
        return given if isinstance(given, DataConverter) else given(there)


def _more(
    there: Sequence[T], given: Sequence[T] | Callable[[Sequence[T]], Sequence[T]] | None
) -> Sequence[T]:
    if given is None:
        return there
    return given(there) if callable(given) else [*there, *given]
