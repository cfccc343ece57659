"""Lists of runs, and their histories, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Self

from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.history import WorkflowHistory
from perdure._client.interceptors import CountWorkflowsInput, ListWorkflowsInput
from perdure._client.outbound import RootOutbound
from perdure._wire.workflow_info import WorkflowExecution, WorkflowExecutionCount
from perdure.common import WorkflowStatus

_PAGE_SIZE = 100


class WorkflowExecutionAsyncIterator:
    """The runs of a list, fetched as they are read. It can be read once."""

    def __init__(self, core: ClientCore, executions: AsyncIterator[WorkflowExecution]) -> None:
        self._core = core
        self._executions = executions

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WorkflowExecution:
        return await anext(self._executions)

    async def map_histories(
        self, *, rpc_timeout: timedelta | None = None
    ) -> AsyncIterator[WorkflowHistory]:
        """The history of each run instead, for `Replayer.replay_workflows`.

        `rpc_timeout` is that of each page. A run that is deleted meanwhile raises RPCError NOT_FOUND.
        """
        async for execution in self:
            handle = WorkflowHandle[object, object](
                self._core, execution.id, run_id=execution.run_id
            )
            yield await handle.fetch_history(rpc_timeout=rpc_timeout)


class ClientLists:
    """The part of `Client` that is about many runs."""

    _core: ClientCore

    def list_workflows(
        self,
        query: str | None = None,
        *,
        status: WorkflowStatus | Sequence[WorkflowStatus] = (),
        workflow_type: str = "",
        id_prefix: str = "",
        start_time_min: datetime | None = None,
        start_time_max: datetime | None = None,
        page_size: int = _PAGE_SIZE,
        limit: int | None = None,
        archived: bool = False,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowExecutionAsyncIterator:
        """Runs that fit every filter given, newest start first, fetched as they are read.

        `query` is a text like "WorkflowType = 'Order' AND Region IN ('eu', 'us') AND
        StartTime > '2h' ORDER BY CloseTime DESC": = != < <= > >=, IN, BETWEEN, STARTS_WITH, IS NULL,
        AND, OR, NOT over search attributes and WorkflowId, RunId, WorkflowType, TaskQueue,
        ExecutionStatus, StartTime, CloseTime, HistoryLength, HistorySizeBytes, Stuck.
        Start times are from `start_time_min`, inclusive, to `start_time_max`, exclusive.

        `archived`: instead those that were over their retention and have left the tables, by the day
        of their close, the newest first; the query has no ORDER BY then. FAILED_PRECONDITION: the
        installation has no archive.
        """
        asked = ListWorkflowsInput(
            query=query,
            status=status,
            workflow_type=workflow_type,
            id_prefix=id_prefix,
            start_time_min=start_time_min,
            start_time_max=start_time_max,
            page_size=page_size,
            limit=limit,
            rpc_timeout=rpc_timeout,
            archived=archived,
        )
        outbound = self._core.outbound or RootOutbound(self._core)
        return WorkflowExecutionAsyncIterator(self._core, outbound.list_workflows(asked))

    async def count_workflows(
        self,
        query: str | None = None,
        *,
        status: WorkflowStatus | Sequence[WorkflowStatus] = (),
        workflow_type: str = "",
        id_prefix: str = "",
        start_time_min: datetime | None = None,
        start_time_max: datetime | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowExecutionCount:
        """How many runs a list would show; `groups` when `query` has a GROUP BY ExecutionStatus or
        GROUP BY WorkflowType at its end."""
        asked = CountWorkflowsInput(
            query=query,
            status=status,
            workflow_type=workflow_type,
            id_prefix=id_prefix,
            start_time_min=start_time_min,
            start_time_max=start_time_max,
            rpc_timeout=rpc_timeout,
        )
        outbound = self._core.outbound or RootOutbound(self._core)
        return await outbound.count_workflows(asked)
