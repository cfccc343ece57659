"""One client's connection: its batches, its stream of results, its single calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from perdure._client.coalescing import Coalescer
from perdure._client.interceptors import Interceptor, OutboundInterceptor
from perdure._client.job_requests import JobCreation, Whose
from perdure._client.job_waits import JobWaits
from perdure._client.waits import ResultWaits
from perdure._wire.activity_service import ActivityService
from perdure._wire.audit_service import AuditService
from perdure._wire.batch_service import BatchService
from perdure._wire.batching import PORTION_MIN
from perdure._wire.calls import Call, Target
from perdure._wire.connection import Connection
from perdure._wire.edge import PayloadEdge
from perdure._wire.job_service import JobService
from perdure._wire.operator_service import OperatorService
from perdure._wire.results import RunResult, decoded_result
from perdure._wire.retry import retry_delay_s
from perdure._wire.run_service import RunService
from perdure._wire.schedule_service import ScheduleService
from perdure._wire.surroundings import Surroundings
from perdure._wire.updates import UpdateService
from perdure._wire.version_service import VersionService
from perdure._wire.workflow_service import WorkflowService
from perdure.common import QueryRejectCondition
from perdure.converter import DataConverter, Payload, PayloadConverter
from perdure.errors import PayloadDecodeError, RPCError, RPCStatusCode

T = TypeVar("T")

# Of every call unless its caller says otherwise; waiting for a result has no limit of its own.
CALL_TIMEOUT_S = 60.0
# Enough to keep the engine deciding while another batch commits, and few enough that under load
# calls collect into large batches. The second one leaves only when it is worth it: all these calls
# are answered as fast as the engine commits.
CALL_BATCHES_IN_FLIGHT_MAX = 2
# A query waits for a worker, and a batch for its slowest query: more batches, so that a slow one
# holds up few others.
QUERY_BATCHES_IN_FLIGHT_MAX = 4


class ClientCore:
    """Bound to the event loop in which it was made, like the channel in it."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        identity: str,
        data_converter: DataConverter,
        surroundings: Surroundings,
    ) -> None:
        self.edge = edge = PayloadEdge.of(data_converter)
        self.connection = connection
        self.owns_connection = False
        self.namespace = namespace
        self.identity = identity
        self.data_converter = data_converter
        self.surroundings = surroundings
        self.interceptors: Sequence[Interceptor] = ()
        self.outbound: OutboundInterceptor | None = None  # None: there is no interceptor
        self.query_reject_condition: QueryRejectCondition | None = None  # of those that give none
        self.plugins: Sequence[Any] = ()  # `perdure.client.Plugin`s, which its workers ask too
        self.workflow_service = WorkflowService(connection, edge)
        self.operator_service = OperatorService(connection)
        self.version_service = VersionService(connection)
        self.update_service = UpdateService(connection, edge)
        self.activity_service = ActivityService(connection, edge)
        self.audit_service = AuditService(connection)
        self.batch_service = BatchService(connection, edge)
        self.run_service = RunService(connection)
        self.schedule_service = ScheduleService(connection, edge)
        # Queries travel apart, so that one that takes long never holds up a start.
        self._calls = Coalescer(
            self.workflow_service.batch_call,
            surroundings,
            batches_in_flight_max=CALL_BATCHES_IN_FLIGHT_MAX,
            beside_min=PORTION_MIN,
        )
        self._queries = Coalescer(
            self.workflow_service.batch_call,
            surroundings,
            batches_in_flight_max=QUERY_BATCHES_IN_FLIGHT_MAX,
        )
        self._waits = ResultWaits(self.workflow_service.open_results, surroundings)
        self.job_service = JobService(connection, edge)
        whose = Whose(
            namespace=namespace,
            identity=identity,
            converter=data_converter.payload_converter,
            edge=edge,
        )
        self.job_creation = JobCreation(self.job_service, whose, self.unary, surroundings)
        self.job_waits = JobWaits(partial(self.job_service.results, namespace), surroundings)

    @property
    def converter(self) -> PayloadConverter:
        return self.data_converter.payload_converter

    def decode_or_keep(self, payload: Payload) -> Any:
        """For display, where no hint is known: what cannot be decoded stays as it is."""
        try:
            return self.converter.from_payload(payload)
        except PayloadDecodeError:
            return payload

    def call(self, call: Call[T], rpc_timeout: timedelta | None) -> asyncio.Future[T]:
        return self._submit(self._calls, call, seconds(rpc_timeout))

    def query(self, call: Call[T], rpc_timeout: timedelta | None) -> asyncio.Future[T]:
        return self._submit(self._queries, call, seconds(rpc_timeout))

    def _submit(self, calls: Coalescer, call: Call[T], timeout_s: float) -> asyncio.Future[T]:
        if self.edge.passes(call.size):
            return calls.submit(call, timeout_s)
        return asyncio.ensure_future(self._pass_edge(calls, call, timeout_s))

    async def _pass_edge(self, calls: Coalescer, call: Call[T], timeout_s: float) -> T:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self.edge.encode(call.message)
        except TimeoutError:
            message = "the call's payloads were not encoded in time"
            raise RPCError(message, RPCStatusCode.DEADLINE_EXCEEDED) from None
        call.size = call.message.ByteSize()
        result = await calls.submit(call.unread(), max(0.0, deadline_s - loop.time()))
        await self.edge.decode(result, keeps_unreadable=call.only_shows)
        answer = call.read(result)
        if isinstance(answer, RPCError | PayloadDecodeError):
            raise answer
        return answer

    async def result(
        self, target: Target, rpc_timeout: timedelta | None, *, follow_runs: bool = False
    ) -> RunResult:
        """Waits as long as it takes, or until the timeout: RPCError DEADLINE_EXCEEDED.

        `follow_runs`: of the last run of the chain that begins with the one that is waited for.
        """
        if rpc_timeout is None:
            outcome = await self._result(target, follow_runs)
            return await decoded_result(outcome, self.edge)
        try:
            async with asyncio.timeout(rpc_timeout.total_seconds()):
                outcome = await self._result(target, follow_runs)
                return await decoded_result(outcome, self.edge)
        except TimeoutError:
            message = f"workflow {target.workflow_id!r} has not closed in time"
            raise RPCError(message, RPCStatusCode.DEADLINE_EXCEEDED) from None

    async def _result(self, target: Target, follow_runs: bool) -> RunResult:
        run_id = target.run_id
        while True:
            outcome = await self._waits.wait(target.namespace, target.workflow_id, run_id)
            if not follow_runs or not outcome.next_run_id:
                return outcome
            run_id = outcome.next_run_id

    async def unary(
        self, send: Callable[[float], Awaitable[T]], rpc_timeout: timedelta | None
    ) -> T:
        """Sends until it is answered, or raises the last error when the time is up."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + seconds(rpc_timeout)
        attempt = 0
        while True:
            try:
                return await send(max(0.0, deadline_s - loop.time()))
            except RPCError as error:
                attempt += 1
                delay_s = retry_delay_s(error, attempt, self.surroundings.random)
                if delay_s is None or loop.time() + delay_s >= deadline_s:
                    raise
            await self.surroundings.sleep(delay_s)

    async def close(self) -> None:
        await self._calls.close()
        await self._queries.close()
        await self._waits.close()
        await self.job_creation.close()
        await self.job_waits.close()
        await self.workflow_service.close()
        if self.owns_connection:
            await self.connection.close()


def seconds(rpc_timeout: timedelta | None) -> float:
    return CALL_TIMEOUT_S if rpc_timeout is None else rpc_timeout.total_seconds()
