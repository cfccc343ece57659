"""Parents and children for test_children.py."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure import workflow
from perdure.common import RetryPolicy, WorkflowIdReusePolicy
from perdure.errors import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
)
from perdure.workflow import ChildWorkflowCancellationType, ParentClosePolicy

HOUR = timedelta(hours=1)


@workflow.defn
class Child:
    """Does as it is told by its argument; "wait" is until a signal says what to return."""

    def __init__(self) -> None:
        self.words: list[str] = []

    @workflow.run
    async def run(self, what: str) -> str:
        match what:
            case "fail":
                raise ApplicationError("no paper", 7, type="Empty", non_retryable=True)
            case "fail twice":
                if workflow.info().attempt < 3:
                    raise ApplicationError("not yet")
                return f"attempt {workflow.info().attempt}"
            case "go on" if workflow.info().continued_run_id is None:
                workflow.continue_as_new("go on")
            case "wait" | "clean up":
                return await self.wait(clean_up=what == "clean up")
            case "stubborn":
                return await self.stay()
        return f"{what} done"

    async def wait(self, *, clean_up: bool) -> str:
        try:
            await workflow.wait_condition(lambda: bool(self.words))
        except asyncio.CancelledError:
            if clean_up:
                await workflow.sleep(HOUR)
            raise
        return self.words[-1]

    async def stay(self) -> str:
        try:
            await workflow.wait_condition(lambda: False)
        except asyncio.CancelledError:
            return f"stayed: {workflow.cancellation_reason()}"
        return "not reached"

    @workflow.signal
    def tell(self, word: str) -> None:
        self.words.append(word)

    @workflow.query
    def told(self) -> list[str]:
        return self.words


@workflow.defn
class Parent:
    """Waits for one child, and says what it heard."""

    @workflow.run
    async def run(self, what: str, options: dict[str, Any]) -> Any:
        try:
            return await workflow.execute_child_workflow(Child.run, what, **given(options))
        except ChildWorkflowError as error:
            cause = error.cause
            return [type(cause).__name__, str(cause), error.workflow_id, bool(error.run_id)]
        except WorkflowAlreadyStartedError as error:
            return ["WorkflowAlreadyStartedError", error.workflow_id]


def given(options: dict[str, Any]) -> Any:
    kinds: dict[str, Any] = {
        "cancellation_type": ChildWorkflowCancellationType,
        "parent_close_policy": ParentClosePolicy,
        "id_reuse_policy": WorkflowIdReusePolicy,
        "execution_timeout": lambda seconds: timedelta(seconds=seconds),
        "retry_policy": lambda attempts: RetryPolicy(maximum_attempts=attempts),
    }
    return {name: kinds.get(name, lambda one: one)(one) for name, one in options.items()}


@workflow.defn
class Careless:
    """Does not catch what its child raises."""

    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_child_workflow(Child.run, "fail", id="c")


@workflow.defn
class Leaving:
    """Ends, or fails, or goes on anew, while its child waits."""

    @workflow.run
    async def run(self, policy: int, how: str) -> str:
        if workflow.info().continued_run_id is not None:
            return "next run"
        handle = await workflow.start_child_workflow(
            Child.run, "wait", id="c", parent_close_policy=ParentClosePolicy(policy)
        )
        if how == "fail":
            raise ApplicationError("enough")
        if how == "go on":
            workflow.continue_as_new(args=[policy, how])
        assert handle.first_execution_run_id is not None
        return handle.first_execution_run_id


@workflow.defn
class Relative:
    """Knows who is above it, and has its child say the same."""

    @workflow.run
    async def run(self, generations: int) -> list[list[str] | None]:
        above = workflow.info().parent
        root = workflow.info().root
        known = None
        if above is not None and root is not None:
            known = [above.workflow_id, above.run_id, above.namespace, root.workflow_id]
        below: list[list[str] | None] = []
        if generations:
            below = await workflow.execute_child_workflow(
                Relative.run, generations - 1, id=f"{workflow.info().workflow_id}/child"
            )
        return [known, *below]


@workflow.defn
class Talking:
    """Signals its child; or another workflow, which it may cancel instead."""

    @workflow.run
    async def run(self, how: str) -> Any:
        try:
            return await getattr(self, how)()
        except ApplicationError as error:
            return [error.type, error.message]
        except CancelledError as error:
            return error.message

    async def child(self) -> str:
        handle = await workflow.start_child_workflow(Child.run, "wait", id="c")
        await handle.signal(Child.tell, "hello")
        return await handle

    async def child_that_went_on(self) -> str:
        handle = await workflow.start_child_workflow("GoesOn", id="c", result_type=str)
        await workflow.sleep(HOUR)
        await handle.signal("tell", "to the next run")
        return await handle

    async def child_that_has_closed(self) -> None:
        handle = await workflow.start_child_workflow(Child.run, "x", id="c")
        await handle
        await handle.signal(Child.tell, "hello")

    async def other(self) -> str:
        other = workflow.get_external_workflow_handle_for(Child.run, "o")
        await other.signal(Child.tell, "first")
        await other.signal(Child.tell, "second")
        return "sent"

    async def cancel_other(self) -> str:
        await workflow.get_external_workflow_handle("o").cancel(reason="I say so")
        return "asked"

    async def many(self) -> str:
        other = workflow.get_external_workflow_handle_for(Child.run, "o")
        await asyncio.gather(*(other.signal(Child.tell, f"{number}") for number in range(30)))
        return "sent"


@workflow.defn
class GoesOn(Child):
    """Its second run waits for a word."""

    @workflow.run
    async def run(self, what: str = "") -> str:
        if workflow.info().continued_run_id is None:
            workflow.continue_as_new()
        await workflow.wait_condition(lambda: bool(self.words))
        return self.words[-1]

    @workflow.signal
    def tell(self, word: str) -> None:
        self.words.append(word)

    @workflow.query
    def told(self) -> list[str]:
        return self.words


@workflow.defn
class Hasty:
    """Changes its mind about a child, at once or as soon as it has started."""

    @workflow.run
    async def run(self, how: str) -> str:
        task = asyncio.create_task(workflow.execute_child_workflow(Child.run, "wait", id="c"))
        if how == "never sent":
            await asyncio.sleep(0)
        elif how == "on its way":
            await workflow.sleep(0.001)
        else:
            await workflow.sleep(HOUR)
        task.cancel()
        try:
            await task
        except ChildWorkflowError as error:
            return type(error.cause).__name__
        return "not reached"


@workflow.defn
class Crowd:
    """Many children side by side, a few of which fail; then one by one as a saga."""

    @workflow.run
    async def run(self, count: int) -> list[Any]:
        found = await workflow.parallel(
            [
                lambda number=number: workflow.execute_child_workflow(
                    Child.run, "fail" if number % 10 == 9 else f"{number}", id=f"c{number}"
                )
                for number in range(count)
            ],
            concurrency=8,
            rule=workflow.FanOutRule(tolerated_failures=count),
        )
        return [len(found.values), sorted(found.errors)]


@workflow.defn
class Undoing:
    @workflow.run
    async def run(self) -> str:
        saga = workflow.saga()
        try:
            async with saga:
                saga.add(workflow.execute_child_workflow, Child.run, "undo", id="undo")
                await workflow.execute_child_workflow(Child.run, "fail", id="do")
        except ChildWorkflowError as error:
            return f"{error.workflow_id} failed"
        return "not reached"


@workflow.defn
class Limited:
    @workflow.run
    async def run(self) -> str:
        try:
            async with asyncio.timeout(60):
                return await workflow.execute_child_workflow(Child.run, "clean up", id="c")
        except TimeoutError:
            return "took too long"


ALL = [
    Child, Parent, Careless, Leaving, Relative, Talking, GoesOn, Hasty, Crowd, Undoing, Limited
]  # fmt: skip
