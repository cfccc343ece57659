"""An engine in memory behind real gRPC: what the SDK is tested against when the engine is not the
subject. It records every request, and fails on demand, before or after the effect."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from tests.integration.sdk.fake_faults import Fault, status
from tests.integration.sdk.fake_runs import Run, Runs
from tests.integration.sdk.fake_streams import serve_calls
from tests.integration.sdk.fake_worker_doors import NamespaceDoor, WorkerDoor

from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb
from perdure_api.v1 import workflow_service_pb2 as workflow_pb
from perdure_api.v1.namespace_service_pb2_grpc import (
    add_NamespaceServiceServicer_to_server,
)
from perdure_api.v1.worker_service_pb2_grpc import (
    add_WorkerServiceServicer_to_server,
)
from perdure_api.v1.workflow_service_pb2_grpc import (
    WorkflowServiceServicer,
    add_WorkflowServiceServicer_to_server,
)

# Nothing that a test waits for takes this long on the slowest machine.
PATIENCE_S = 20.0


class FakeEngine:
    """`requests[method]` is what has arrived; `await arrived(method, n)` waits for the n-th."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.call_faults: list[status_pb2.Status] = []
        self.notices: dict[bytes, int] = {}
        self.refused_outcomes: dict[str, status_pb2.Status] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.page_events = 1_000
        self.polls_are_empty = 0
        self.completions_bring_tasks = False
        self.streams: list[asyncio.Task[Any]] = []
        self.address = ""
        self._port = 0
        self._server: grpc.aio.Server | None = None
        self._changed = asyncio.Condition()

    # --- of the tests ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Again on the same port after `kill`."""
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        add_WorkflowServiceServicer_to_server(_WorkflowDoor(self), self._server)
        add_WorkerServiceServicer_to_server(WorkerDoor(self), self._server)
        add_NamespaceServiceServicer_to_server(NamespaceDoor(self), self._server)
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        self.address = f"127.0.0.1:{self._port}"
        await self._server.start()

    async def kill(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    def fail(self, method: str, *faults: Fault) -> None:
        self.faults[method].extend(faults)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(condition)

    async def arrived(self, method: str, count: int = 1) -> Any:
        await self.until(lambda: len(self.requests[method]) >= count)
        return self.requests[method][count - 1]

    def calls(self, kind: str) -> list[Any]:
        """The requests of one kind in all BatchCalls, in order."""
        return [
            getattr(call, kind)
            for request in self.requests["BatchCall"]
            for call in request.calls
            if call.WhichOneof("call") == kind
        ]

    def completions(self, kind: str) -> list[Any]:
        return [
            completion
            for request in self.requests["CompleteTasks"]
            for completion in request.completions
            if completion.WhichOneof("outcome") == kind
        ]

    # --- of the doors ---------------------------------------------------------------------------

    async def enter(self, method: str, request: Any, context: Any) -> Fault | None:
        """Records; waits at the test's gate; fails, or returns the fault to have after the effect."""
        async with self._changed:
            self.requests[method].append(request)
            self._changed.notify_all()
        gate = self.gates.get(method)
        if gate is not None:
            await gate.wait()
        fault = self.faults[method].pop(0) if self.faults[method] else None
        if fault is not None and not fault.after_effect:
            await self.abort(context, fault.status)
        return fault

    async def abort(self, context: Any, error: status_pb2.Status) -> None:
        code = next(one for one in grpc.StatusCode if one.value[0] == error.code)
        metadata = (("grpc-status-details-bin", error.SerializeToString()),)
        await context.abort(code, error.message, metadata)

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class _WorkflowDoor(WorkflowServiceServicer):
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._runs = engine.runs

    async def Calls(self, requests: AsyncIterator[workflow_pb.CallsRequest], context: Any) -> None:
        methods = {"batch_call": self.BatchCall}
        await serve_calls(requests, context, methods, workflow_pb.CallsResponse)

    async def BatchCall(
        self, request: workflow_pb.BatchCallRequest, context: Any
    ) -> workflow_pb.BatchCallResponse:
        fault = await self._engine.enter("BatchCall", request, context)
        results = await asyncio.gather(*(self._answer(call) for call in request.calls))
        if fault is not None:
            await self._engine.abort(context, fault.status)
        return workflow_pb.BatchCallResponse(results=results)

    async def _answer(self, call: workflow_pb.Call) -> workflow_pb.CallResult:
        if self._engine.call_faults:
            error = self._engine.call_faults.pop(0)
            return workflow_pb.CallResult(error=error.SerializeToString())
        kind = call.WhichOneof("call")
        assert kind is not None
        if kind in ("start_workflow", "signal_with_start_workflow"):
            return self._start(kind, getattr(call, kind))
        request = getattr(call, kind)
        run = self._runs.find(request.workflow_id, request.run_id)
        if run is None:
            error = status(grpc.StatusCode.NOT_FOUND, "no such workflow")
            return workflow_pb.CallResult(error=error.SerializeToString())
        if kind == "query_workflow":
            return await self._query(run, request)
        return getattr(self, f"_{kind}")(run, request)

    def _start(self, kind: str, request: Any) -> workflow_pb.CallResult:
        start = request if kind == "start_workflow" else request.start
        known = self._runs.answers.get(start.request_id)
        if known is None:
            open_run = self._runs.by_workflow_id.get(start.workflow_id)
            if open_run is None or open_run.closed.is_set():
                known = self._runs.start(start)
            elif kind == "start_workflow":
                return _already_started(open_run)
            else:
                known = open_run.run_id, False
            self._runs.answers[start.request_id] = known
            if kind != "start_workflow":
                run = self._runs.by_workflow_id[start.workflow_id]
                self._signaled(run, request.signal_name, request.signal_input)
        run_id, started = known
        answer = {kind: {"run_id": run_id, "started": started}}
        return workflow_pb.CallResult(**answer)

    def _signaled(self, run: Run, name: str, data: bytes) -> None:
        self._runs.happened(
            run,
            workflow_execution_signaled=event_pb2.WorkflowExecutionSignaled(
                signal_name=name, input=data
            ),
        )

    def _signal_workflow(self, run: Run, request: Any) -> workflow_pb.CallResult:
        self._signaled(run, request.signal_name, request.input)
        return workflow_pb.CallResult(signal_workflow=workflow_pb.SignalWorkflowResponse())

    def _cancel_workflow(self, run: Run, request: Any) -> workflow_pb.CallResult:
        self._runs.happened(
            run,
            workflow_execution_cancel_requested=event_pb2.WorkflowExecutionCancelRequested(
                reason=request.reason
            ),
        )
        return workflow_pb.CallResult(cancel_workflow=workflow_pb.CancelWorkflowResponse())

    def _terminate_workflow(self, run: Run, request: Any) -> workflow_pb.CallResult:
        result = workflow_pb.WorkflowResult()
        result.failure.message = request.reason
        result.failure.terminated.SetInParent()
        self._runs.close(run, 5, result)
        return workflow_pb.CallResult(terminate_workflow=workflow_pb.TerminateWorkflowResponse())

    def _describe_workflow(self, run: Run, request: Any) -> workflow_pb.CallResult:
        response = workflow_pb.DescribeWorkflowResponse(info=_info(run), buffered_events=3)
        return workflow_pb.CallResult(describe_workflow=response)

    async def _query(self, run: Run, request: Any) -> workflow_pb.CallResult:
        query = worker_pb.TaskQuery(
            query_token=b"query-%d" % id(request),
            query_type=request.query_type,
            args=request.args,
        )
        answer = await self._runs.ask(run, query)
        if answer.HasField("failure"):
            info = error_details_pb2.ErrorInfo(reason="QUERY_FAILED")
            error = status(grpc.StatusCode.INVALID_ARGUMENT, answer.failure.message, info)
            return workflow_pb.CallResult(error=error.SerializeToString())
        response = workflow_pb.QueryWorkflowResponse(result=answer.result)
        return workflow_pb.CallResult(query_workflow=response)

    async def WaitResults(
        self, requests: AsyncIterator[workflow_pb.WaitResultsRequest], context: Any
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._engine.streams.append(task)
        answers: asyncio.Queue[workflow_pb.WaitedResult] = asyncio.Queue()
        waiting: dict[int, asyncio.Task[None]] = {}
        reader = asyncio.create_task(self._read_waits(requests, context, answers, waiting))
        try:
            while True:
                found = [await answers.get()]
                while not answers.empty():
                    found.append(answers.get_nowait())
                await context.write(workflow_pb.WaitResultsResponse(results=found))
        finally:
            for one in (reader, *waiting.values()):
                one.cancel()

    async def _read_waits(
        self,
        requests: AsyncIterator[workflow_pb.WaitResultsRequest],
        context: Any,
        answers: asyncio.Queue[workflow_pb.WaitedResult],
        waiting: dict[int, asyncio.Task[None]],
    ) -> None:
        async for request in requests:
            await self._engine.enter("WaitResults", request, context)
            for wait in request.waits:
                waiting[wait.wait_id] = asyncio.create_task(self._wait(wait, answers))
            for wait_id in request.forget:
                waiting.pop(wait_id).cancel()

    async def _wait(
        self, wait: workflow_pb.Wait, answers: asyncio.Queue[workflow_pb.WaitedResult]
    ) -> None:
        run = self._runs.find(wait.workflow_id, wait.run_id)
        answer = workflow_pb.WaitedResult(wait_id=wait.wait_id)
        if run is None:
            error = status(grpc.StatusCode.NOT_FOUND, "no such workflow")
            answer.error = error.SerializeToString()
        else:
            await run.closed.wait()
            assert run.result is not None
            answer.result.CopyFrom(run.result)
        answers.put_nowait(answer)

    async def HeartbeatActivity(
        self, request: workflow_pb.HeartbeatActivityRequest, context: Any
    ) -> workflow_pb.HeartbeatActivityResponse:
        await self._engine.enter("HeartbeatActivity", request, context)
        attempt = self._runs.started_attempts.get(request.token)
        if attempt is None:
            await self._engine.abort(context, status(grpc.StatusCode.NOT_FOUND, "it is over"))
            raise AssertionError
        attempt.heartbeat_details = request.details
        return workflow_pb.HeartbeatActivityResponse()

    async def ListWorkflows(
        self, request: workflow_pb.ListWorkflowsRequest, context: Any
    ) -> workflow_pb.ListWorkflowsResponse:
        await self._engine.enter("ListWorkflows", request, context)
        found = self._matching(request.filter)
        first = int(request.page_token or b"0")
        page = found[first : first + request.page_size]
        more = first + len(page) < len(found)
        return workflow_pb.ListWorkflowsResponse(
            workflows=[_info(run) for run in page],
            next_page_token=b"%d" % (first + len(page)) if more else b"",
        )

    async def CountWorkflows(
        self, request: workflow_pb.CountWorkflowsRequest, context: Any
    ) -> workflow_pb.CountWorkflowsResponse:
        await self._engine.enter("CountWorkflows", request, context)
        return workflow_pb.CountWorkflowsResponse(count=len(self._matching(request.filter)))

    def _matching(self, wanted: workflow_pb.WorkflowFilter) -> list[Run]:
        return [
            run
            for run in self._runs.by_run_id.values()
            if run.start.workflow_id.startswith(wanted.workflow_id_prefix)
            and (not wanted.statuses or run.status in wanted.statuses)
        ]

    async def GetHistory(
        self, request: workflow_pb.GetHistoryRequest, context: Any
    ) -> workflow_pb.GetHistoryResponse:
        await self._engine.enter("GetHistory", request, context)
        run = self._runs.find(request.workflow_id, request.run_id)
        if run is None:
            await self._engine.abort(context, status(grpc.StatusCode.NOT_FOUND, "no such run"))
            raise AssertionError
        first = int(request.page_token or b"0")
        events = run.events[first : first + self._engine.page_events]
        more = first + len(events) < len(run.events)
        token = b"%d" % (first + len(events)) if more else b""
        return workflow_pb.GetHistoryResponse(events=events, next_page_token=token)


def _already_started(run: Run) -> workflow_pb.CallResult:
    info = error_details_pb2.ErrorInfo(
        reason="WORKFLOW_ALREADY_STARTED", metadata={"run_id": run.run_id}
    )
    error = status(grpc.StatusCode.ALREADY_EXISTS, "already started", info)
    return workflow_pb.CallResult(error=error.SerializeToString())


def _info(run: Run) -> workflow_pb.WorkflowInfo:
    return workflow_pb.WorkflowInfo(
        workflow_id=run.start.workflow_id,
        run_id=run.run_id,
        workflow_type=run.start.workflow_type,
        task_queue=run.start.task_queue,
        status=run.status,
        start_time_us=1_000_000,
        history_events=len(run.events),
        memo=run.start.memo,
    )
