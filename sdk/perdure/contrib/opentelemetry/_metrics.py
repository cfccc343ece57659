"""Metrics of clients and workers, over interceptors: a program without the plug-in pays for none.

Labels are few and bounded: the names of types and queues of which there are too many become
`_other_`, and no id and no text of an error is ever one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

import perdure.client
import perdure.worker
from perdure import activity, workflow
from perdure._replay.run import current_run
from perdure.client import OutboundInterceptor
from perdure.errors import RPCError, is_benign, is_cancelled_exception
from perdure.plugin import Plugin
from perdure.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Worker,
    WorkerUsage,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

__all__ = ["MetricsPlugin"]

# Of one label; what comes later is counted together.
NAMES_MAX = 200
_OTHER = "_other_"
_EXTERN = "__perdure_metrics"


class Names:
    """The first so many names stay what they are."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= NAMES_MAX:
                return _OTHER
            self._known.add(name)
        return name


class MetricsPlugin(Plugin):
    """Give it to the client; its workers have it from there.

    `perdure_client_request_seconds`, by operation and code; `perdure_worker_activity_seconds`, by
    activity type (`operation`), queue and result, and `perdure_worker_activity_wait_seconds`, from
    its schedule to its start, by queue; `perdure_worker_workflow_closed_total`, by workflow type,
    queue and result, counted when the engine has taken the close, and so once whatever is replayed;
    `perdure_worker_cached_workflows`, `perdure_worker_running_activities` (local ones too) and
    `perdure_worker_activity_slots`, by queue.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        """`meter` is by default that of the global provider."""
        meter = meter or get_meter("perdure")
        self._workers: WeakSet[Worker] = WeakSet()
        self._interceptor = _Interceptor(meter)
        gauges: tuple[tuple[str, Callable[[WorkerUsage], int]], ...] = (
            ("perdure_worker_cached_workflows", lambda usage: usage.cached_workflows),
            ("perdure_worker_running_activities", lambda usage: usage.running_activities),
            ("perdure_worker_activity_slots", lambda usage: usage.activity_slots),
        )
        for name, observe in gauges:
            meter.create_observable_gauge(name, callbacks=[partial(self._observe, observe)])

    def configure_client(self, config: perdure.client.ClientConfig) -> perdure.client.ClientConfig:
        config["interceptors"] = [*config["interceptors"], self._interceptor]
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        self._workers.add(worker)
        try:
            await next(worker)
        finally:
            self._workers.discard(worker)

    def _observe(
        self, what: Callable[[WorkerUsage], int], options: CallbackOptions
    ) -> Iterable[Observation]:
        for worker in [*self._workers]:
            yield Observation(what(worker.usage()), {"task_queue": worker.task_queue})


class _Interceptor(perdure.client.Interceptor, perdure.worker.Interceptor):
    def __init__(self, meter: Meter) -> None:
        self.requests = meter.create_histogram("perdure_client_request_seconds", "s")
        self.activities = meter.create_histogram("perdure_worker_activity_seconds", "s")
        self.waits = meter.create_histogram("perdure_worker_activity_wait_seconds", "s")
        self.closed = meter.create_counter("perdure_worker_workflow_closed_total")
        self.types, self.queues = Names(), Names()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Outbound(next, self)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Activity(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        input.unsafe_extern_functions[_EXTERN] = self.count_closed
        return _Workflow

    def count_closed(self, workflow_type: str, task_queue: str, result: str) -> None:
        labels = {
            "operation": self.types.label(workflow_type),
            "task_queue": self.queues.label(task_queue),
            "result": result,
        }
        self.closed.add(1, labels)


# Calls that end when they are answered; waiting for a result ends with the workflow.
_TIMED = (
    "start_workflow",
    "signal_workflow",
    "query_workflow",
    "cancel_workflow",
    "terminate_workflow",
    "delete_workflow",
    "describe_workflow",
    "count_workflows",
    "start_workflow_update",
    "start_update_with_start_workflow",
    "heartbeat_async_activity",
    "complete_async_activity",
    "fail_async_activity",
    "report_cancellation_async_activity",
    "create_job",
    "create_jobs",
    "describe_job",
    "cancel_job",
    "reschedule_job",
)


class _Outbound(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, root: _Interceptor) -> None:
        super().__init__(next)
        for name in _TIMED:
            setattr(self, name, partial(_timed, root, name, getattr(next, name)))


async def _timed(
    root: _Interceptor, name: str, call: Callable[[Any], Awaitable[Any]], input: Any
) -> Any:
    began_s = time.perf_counter()
    code = "OK"
    try:
        return await call(input)
    except RPCError as error:
        code = error.status.name
        raise
    except BaseException:
        code = "ERROR"
        raise
    finally:
        labels = {"operation": name, "code": code}
        root.requests.record(time.perf_counter() - began_s, labels)


class _Activity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, root: _Interceptor) -> None:
        super().__init__(next)
        self._root = root

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        root, info = self._root, activity.info()
        queue = root.queues.label(info.task_queue)
        waited_s = (info.started_time - info.scheduled_time).total_seconds()
        root.waits.record(max(0.0, waited_s), {"task_queue": queue})
        began_s = time.perf_counter()
        result = "failed"
        try:
            value = await super().execute_activity(input)
            result = "completed"
        except BaseException as error:
            if is_cancelled_exception(error):
                result = "canceled"
            elif not isinstance(error, Exception):
                result = "left open"
            elif is_benign(error):
                result = "benign"
            raise
        else:
            return value
        finally:
            labels = {
                "operation": root.types.label(info.activity_type),
                "task_queue": queue,
                "result": result,
            }
            root.activities.record(time.perf_counter() - began_s, labels)


class _Workflow(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        try:
            value = await super().execute_workflow(input)
        except workflow.ContinueAsNewError:
            _close("continued as new")
            raise
        except BaseException as error:
            _close("canceled" if is_cancelled_exception(error) else "failed")
            raise
        _close("completed")
        return value


def _close(result: str) -> None:
    run = current_run()
    if run.replaying or run.is_evicted:
        return
    started = run.started
    assert started is not None
    count = workflow.extern_functions()[_EXTERN]
    run.do_afterwards(partial(count, started.workflow_type, started.task_queue, result))
