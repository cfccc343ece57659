"""What mypy and pyright make of a client's calls. Checked, never run."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_type

from perdure import workflow
from perdure.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowHandle,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from perdure.common import (
    RetryPolicy,
    SearchAttributeKey,
    TypedSearchAttributes,
    WorkflowIdConflictPolicy,
)

AMOUNT = SearchAttributeKey.for_int("Amount")


@workflow.defn
class Nothing:
    @workflow.run
    async def run(self) -> int:
        return 1


@workflow.defn
class One:
    @workflow.run
    async def run(self, name: str) -> list[str]:
        return [name]

    @workflow.signal
    async def poke(self) -> None: ...

    @workflow.signal
    def tell(self, what: int) -> None: ...

    @workflow.signal
    def tell_two(self, what: int, more: str) -> None: ...

    @workflow.update
    async def plain(self) -> int:
        return 1

    @workflow.update(name="other")
    def set(self, what: str) -> list[str]:
        return [what]

    @set.validator
    def check(self, what: str) -> None: ...

    @workflow.update
    async def set_two(self, what: str, more: int) -> bytes:
        return b""

    @workflow.query
    def count(self) -> int:
        return 1

    @workflow.query
    def at(self, index: int) -> str:
        return "x"

    @workflow.query
    def between(self, first: int, last: int) -> Sequence[str]:
        return ()


@workflow.defn
class Two:
    @workflow.run
    async def run(self, name: str, times: int) -> bytes:
        return b""


async def starting(client: Client) -> None:
    nothing = await client.start_workflow(Nothing.run, id="a", task_queue="q")
    assert_type(nothing, WorkflowHandle[Nothing, int])
    assert_type(await nothing.result(), int)
    one = await client.start_workflow(
        One.run,
        "x",
        id="a",
        task_queue="q",
        retry_policy=RetryPolicy(),
        run_timeout=timedelta(hours=1),
        id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING,
    )
    assert_type(one, WorkflowHandle[One, list[str]])
    two = await client.start_workflow(Two.run, args=["x", 1], id="a", task_queue="q")
    assert_type(two, WorkflowHandle[Two, bytes])
    named = await client.start_workflow("Two", args=["x", 1], id="a", task_queue="q")
    assert_type(named, WorkflowHandle[Any, Any])

    await client.start_workflow(One.run, 1, id="a", task_queue="q")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # no str
    await client.start_workflow(One.run, "x", task_queue="q")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]  # no id


async def executing(client: Client) -> None:
    assert_type(await client.execute_workflow(Nothing.run, id="a", task_queue="q"), int)
    assert_type(await client.execute_workflow(One.run, "x", id="a", task_queue="q"), list[str])
    assert_type(
        await client.execute_workflow(Two.run, args=["x", 1], id="a", task_queue="q"), bytes
    )
    assert_type(await client.execute_workflow("One", "x", id="a", task_queue="q"), Any)


async def talking(client: Client) -> None:
    handle = client.get_workflow_handle_for(One.run, "a")
    assert_type(handle, WorkflowHandle[One, list[str]])
    await handle.signal(One.poke)
    await handle.signal(One.tell, 1)
    await handle.signal(One.tell_two, args=[1, "x"])
    await handle.signal("anything", rpc_timeout=timedelta(seconds=1))
    assert_type(await handle.query(One.count), int)
    assert_type(await handle.query(One.at, 1), str)
    assert_type(await handle.query(One.between, args=[1, 2]), Sequence[str])
    assert_type(await handle.query("anything", result_type=int), Any)
    async for execution in client.list_workflows(id_prefix="a"):
        assert_type(execution, WorkflowExecution)
    async for execution in client.list_workflows("Region = 'eu'", limit=5):
        assert_type(execution.typed_search_attributes, TypedSearchAttributes)
        assert_type(execution.typed_search_attributes.get(AMOUNT), int | None)
        assert_type(execution.typed_search_attributes.get(AMOUNT, "none"), int | str)
    counted = await client.count_workflows("GROUP BY ExecutionStatus")
    assert_type(counted, WorkflowExecutionCount)
    assert_type(counted.groups[0].count, int)
    AMOUNT.value_set(1)
    AMOUNT.value_set("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # no int

    assert_type(await handle.reset(event_id=4), WorkflowHandle[One, list[str]])

    await handle.signal(One.tell, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # no int
    other = client.get_workflow_handle_for(Two.run, "b")
    await other.signal(One.poke)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # not of Two


async def updating(client: Client) -> None:
    handle = client.get_workflow_handle_for(One.run, "a")
    accepted = WorkflowUpdateStage.ACCEPTED
    assert_type(await handle.execute_update(One.plain), int)
    assert_type(await handle.execute_update(One.set, "x", id="u"), list[str])
    assert_type(await handle.execute_update(One.set_two, args=["x", 1]), bytes)
    assert_type(await handle.execute_update("anything", 1, result_type=int), Any)
    started = await handle.start_update(One.set, "x", wait_for_stage=accepted)
    assert_type(started, WorkflowUpdateHandle[list[str]])
    assert_type(await started.result(rpc_timeout=timedelta(seconds=1)), list[str])
    assert_type(handle.get_update_handle("u"), WorkflowUpdateHandle[Any])
    assert_type(handle.get_update_handle_for(One.set, "u"), WorkflowUpdateHandle[list[str]])

    operation = WithStartWorkflowOperation(
        One.run,
        "x",
        id="a",
        task_queue="q",
        id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING,
    )
    assert_type(operation, WithStartWorkflowOperation[One, list[str]])
    assert_type(await operation.workflow_handle(), WorkflowHandle[One, list[str]])
    answer = await client.execute_update_with_start_workflow(
        One.set, "x", start_workflow_operation=operation
    )
    assert_type(answer, list[str])
    begun = await client.start_update_with_start_workflow(
        One.plain, wait_for_stage=accepted, start_workflow_operation=operation
    )
    assert_type(begun, WorkflowUpdateHandle[int])

    await handle.execute_update(One.set, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # no str
    await handle.start_update(One.plain)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]  # no stage
