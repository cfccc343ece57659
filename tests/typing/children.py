"""What mypy and pyright make of children and other runs. Checked, never run.

Wrong calls carry an ignore, for both checkers: where one of them finds nothing wrong, it says that
the ignore is not needed.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from perdure import activity, workflow
from perdure.common import RetryPolicy, WorkflowIdReusePolicy


@dataclass
class Parcel:
    weight: int


@workflow.defn
class Pack:
    @workflow.run
    async def run(self, what: str) -> Parcel:
        return Parcel(len(what))

    @workflow.signal
    async def hurry(self, why: str) -> None: ...

    @workflow.signal
    def stop(self) -> None: ...

    @workflow.signal
    def move(self, to: str, floor: int) -> None: ...


@workflow.defn
class Sweep:
    @workflow.run
    async def run(self) -> None: ...


@workflow.defn
class Sort:
    @workflow.run
    async def run(self, first: int, second: str) -> list[str]:
        return [second] * first


LIMIT = timedelta(minutes=1)


@activity.defn
async def undo(what: str, number: int) -> None: ...


class Undoing:
    @activity.defn
    def sync(self, what: str) -> int:
        return len(what)


async def right_calls() -> None:
    assert_type(await workflow.execute_child_workflow(Pack.run, "book", id="c"), Parcel)
    assert_type(await workflow.execute_child_workflow(Sweep.run), None)
    assert_type(await workflow.execute_child_workflow(Sort.run, args=[1, "x"]), list[str])
    assert_type(await workflow.execute_child_workflow("other", 1, result_type=Parcel), Parcel)
    assert_type(await workflow.execute_child_workflow("other", args=[1, 2]), Any)
    assert_type(
        await workflow.execute_child_workflow(
            Pack.run,
            "book",
            task_queue="q",
            cancellation_type=workflow.ChildWorkflowCancellationType.TRY_CANCEL,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            execution_timeout=timedelta(days=1),
            id_reuse_policy=WorkflowIdReusePolicy.REJECT_DUPLICATE,
            retry_policy=RetryPolicy(maximum_attempts=3),
            memo={"a": 1},
        ),
        Parcel,
    )


async def handles() -> None:
    handle = await workflow.start_child_workflow(Pack.run, "book")
    assert_type(handle, workflow.ChildWorkflowHandle[Pack, Parcel])
    assert_type(handle.id, str)
    assert_type(handle.first_execution_run_id, str | None)
    assert_type(await handle, Parcel)
    assert_type(handle.cancel(), bool)
    await handle.signal(Pack.hurry, "late")
    await handle.signal(Pack.stop)
    await handle.signal(Pack.move, args=["attic", 3])
    await handle.signal("anything", 1)
    by_name = await workflow.start_child_workflow("other", result_type=int)
    assert_type(by_name, workflow.ChildWorkflowHandle[Any, int])


async def other_runs() -> None:
    known = workflow.get_external_workflow_handle_for(Pack.run, "o", run_id="r")
    assert_type(known, workflow.ExternalWorkflowHandle[Pack])
    await known.signal(Pack.hurry, "late")
    await known.signal(Pack.stop)
    await known.cancel(reason="enough")
    unknown = workflow.get_external_workflow_handle("o")
    assert_type(unknown, workflow.ExternalWorkflowHandle[Any])
    await unknown.signal(Pack.hurry, "late")
    await unknown.signal("anything", args=[1, 2])
    assert_type(workflow.info().parent, workflow.ParentInfo | None)
    assert_type(workflow.info().root, workflow.RootInfo | None)


async def steps_and_fan_outs() -> None:
    async with workflow.saga() as saga:
        saga.add(workflow.execute_child_workflow, "undo", id="u")
        saga.add(undo, "book", 1, start_to_close_timeout=LIMIT)
        saga.add(Undoing.sync, "book", start_to_close_timeout=LIMIT, summary="back")
        saga.add("undo", "book", 1, schedule_to_close_timeout=LIMIT)
        saga.add(undo, args=["book", 1], start_to_close_timeout=LIMIT)
        saga.add(workflow.execute_activity, "undo", start_to_close_timeout=LIMIT)
        saga.add(undo, 1, "book", start_to_close_timeout=LIMIT)  # type: ignore[call-overload]
        saga.add(undo, "book", 1, start_timeout=LIMIT)  # type: ignore[call-overload]
    found = await workflow.parallel(
        [
            lambda: workflow.execute_child_workflow(Pack.run, "book"),
            lambda: workflow.execute_child_workflow(Pack.run, "lamp"),
        ]
    )
    assert_type(found.values, list[Parcel])


async def wrong_calls() -> None:
    await workflow.execute_child_workflow(Pack.run, 1)  # type: ignore[arg-type,call-overload]
    await workflow.execute_child_workflow(Pack.run)  # type: ignore[arg-type,call-overload]
    await workflow.execute_child_workflow(Sweep.run, 1)  # type: ignore[arg-type,call-overload]
    await workflow.execute_child_workflow(Pack.run, "a", run_timeout=5)  # type: ignore[call-overload]
    await workflow.execute_child_workflow(Pack.run, "a", queue="q")  # type: ignore[call-overload]
    handle = await workflow.start_child_workflow(Pack.run, "book")
    await handle.signal(Pack.hurry, 1)  # type: ignore[arg-type]
    await handle.signal(Pack.hurry)  # type: ignore[arg-type,call-overload]
    other = workflow.get_external_workflow_handle_for(Sweep.run, "o")
    await other.signal(Pack.stop)  # type: ignore[arg-type,call-overload]
