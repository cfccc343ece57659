"""Running workflow code against recorded histories: does it still do what they say?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from perdure._client.history import WorkflowHistory
from perdure._definitions import WorkflowDefinition, WorkflowRegistry
from perdure._interceptors.worker import Interceptor
from perdure._replay.guard import guard_workflows
from perdure._replay.instance import WorkflowInstance
from perdure._replay.interception import Interception
from perdure._replay.ledger import Entry
from perdure._replay.messages import Event, Task, TaskFailure, TaskSuccess
from perdure._replay.messages import WorkflowExecutionStarted as Started
from perdure._wire.edge import PayloadEdge
from perdure._wire.events import event_from_message
from perdure._wire.history import message_from_history_event
from perdure._worker_plugins import (
    Plugin,
    ReplayerConfig,
    configured_replayer,
    running_replayer,
)
from perdure.converter import DataConverter
from perdure.errors import HistoryError
from perdure.workflow._outbound import RootOutbound


@dataclass(frozen=True)
class WorkflowReplayResult:
    """`replay_failure` None: the code does what the history says."""

    history: WorkflowHistory
    replay_failure: Exception | None


@dataclass(frozen=True)
class WorkflowReplayResults:
    """What went wrong, by run id; empty when nothing did."""

    replay_failures: Mapping[str, Exception]


class Replayer:
    """Replays histories with these workflows, as a worker would that has to load the run.

    Nothing is asked of any engine, and no activity runs. A failure is NondeterminismError, which
    names the event and the line of your code, when the code does something else than the history
    says; UnknownWorkflowTypeError; HistoryError for a history that is none; PayloadDecodeError.
    A history that was encoded by a codec needs the data converter of its workers.
    A history may be that of an open run: it is replayed up to its last completed workflow task.
    """

    made_of: ReplayerConfig
    """For this package: what `config` returns. Set by `configured_replayer`."""

    @configured_replayer
    def __init__(
        self,
        *,
        workflows: Sequence[type],
        namespace: str = "default",
        data_converter: DataConverter = DataConverter.default,
        workflow_failure_exception_types: Sequence[type[BaseException]] = (),
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
    ) -> None:
        """Takes what the worker takes of the same names. TypeError, ValueError: cannot be run."""
        if not workflows:
            raise ValueError("at least one workflow is needed")
        self._workflows = WorkflowRegistry(workflows)
        self._plugins = plugins
        self._interception = Interception.of(interceptors, RootOutbound)
        self._namespace = namespace
        self._data_converter = data_converter
        self._failure_exception_types = tuple(workflow_failure_exception_types)
        self._edge = PayloadEdge.of(data_converter)
        guard_workflows(workflows)

    def config(self) -> ReplayerConfig:
        """What it is made of, after its plug-ins."""
        return self.made_of.copy()

    async def replay_workflow(
        self, history: WorkflowHistory, *, raise_on_replay_failure: bool = True
    ) -> WorkflowReplayResult:
        """Raises the failure, unless told to return it in the result."""
        async with self.workflow_replay_iterator(_only(history)) as results:
            async for result in results:
                if result.replay_failure is not None and raise_on_replay_failure:
                    raise result.replay_failure
                return result
        raise RuntimeError("a plug-in has kept the history from being replayed")

    async def replay_workflows(
        self, histories: AsyncIterator[WorkflowHistory], *, raise_on_replay_failure: bool = True
    ) -> WorkflowReplayResults:
        """Raises the first failure, unless told to go on and return them all."""
        failures: dict[str, Exception] = {}
        async with self.workflow_replay_iterator(histories) as results:
            async for result in results:
                if result.replay_failure is None:
                    continue
                if raise_on_replay_failure:
                    raise result.replay_failure
                history = result.history
                failures[history.run_id or history.workflow_id] = result.replay_failure
        return WorkflowReplayResults(failures)

    def workflow_replay_iterator(
        self, histories: AsyncIterator[WorkflowHistory]
    ) -> AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]:
        """Results one after the other, as `async with … as results: async for result in results`."""

        return running_replayer(self._plugins, Replayer._results)(self, histories)

    @asynccontextmanager
    async def _results(
        self, histories: AsyncIterator[WorkflowHistory]
    ) -> AsyncGenerator[AsyncIterator[WorkflowReplayResult], None]:
        async def results() -> AsyncIterator[WorkflowReplayResult]:
            async for history in histories:
                yield WorkflowReplayResult(history, await self._replay(history))

        yield results()

    async def replay_observed(
        self, history: WorkflowHistory, observe: Callable[[Event, Entry], None]
    ) -> Exception | None:
        """For this package: `observe` is told of each event that came of a command, and the command."""
        return await self._replay(history, observe)

    async def _replay(
        self,
        history: WorkflowHistory,
        observe: Callable[[Event, Entry], None] | None = None,
    ) -> Exception | None:
        try:
            messages = [message_from_history_event(one) for one in history.events]
            for message in messages:
                await self._edge.decode(message)
            events = [event_from_message(message) for message in messages]
            task = _task_of(history, events)
            definition = self._workflows.find(task.workflow_type)
        except Exception as error:
            return error
        instance = _ReplayedInstance(
            definition,
            namespace=self._namespace,
            data_converter=self._data_converter,
            failure_exception_types=self._failure_exception_types,
            interception=self._interception,
        )
        instance.observe(observe)
        try:
            outcome = instance.activate(task)
            return instance.error if isinstance(outcome, TaskFailure) else None
        finally:
            instance.evict()


async def _only(history: WorkflowHistory) -> AsyncIterator[WorkflowHistory]:
    yield history


class _ReplayedInstance(WorkflowInstance):
    """Keeps what went wrong as it was raised."""

    __slots__ = ("error",)

    def __init__(self, definition: WorkflowDefinition, **options: Any) -> None:
        super().__init__(definition, **options)
        self.error: Exception | None = None

    def observe(self, observe: Callable[[Event, Entry], None] | None) -> None:
        self._run.ledger.observe = observe

    def _fail(self, task: Task, error: BaseException) -> TaskSuccess | TaskFailure:
        if not isinstance(error, Exception):  # an interrupt of ours; none of the user's passes here
            self.error = HistoryError(repr(error))
        else:
            self.error = error
        return super()._fail(task, error)


def _task_of(history: WorkflowHistory, events: list[Event]) -> Task:
    """One that brings the whole history and asks for nothing more than to have replayed it."""
    started = events[0] if events else None
    if not isinstance(started, Started):
        raise HistoryError("the history does not begin with WorkflowExecutionStarted")
    return Task(
        token=b"",
        workflow_id=started.workflow_id or history.workflow_id,
        run_id=started.run_id,
        workflow_type=started.workflow_type,
        attempt=1,
        previous_started_event_id=0,
        started_event_id=events[-1].event_id,
        events=events,
        queries=[],
        query_only=True,
        history_size_bytes=0,
        suggest_continue_as_new=False,
    )
