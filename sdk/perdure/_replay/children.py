"""The children of a run: what its code asks for, and how it hears that one has been cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from perdure._failure_info import CanceledInfo, ChildWorkflowInfo, FailureInfo
from perdure._failures import failure_to_exception
from perdure._payload import Payload
from perdure._replay.cancelled import raised_instead
from perdure._replay.child_handle import ChildWorkflowHandle
from perdure._replay.external import External, Sender
from perdure._replay.external_messages import (
    StartChildWorkflow,
)
from perdure._replay.machines.child import (
    GO_ON_AT_ONCE,
    NOT_YET_ASKED,
    ChildMachine,
    ChildMove,
    ChildState,
    ChildWorkflowCancellationType,
)
from perdure._replay.request_future import RequestFuture
from perdure.errors import RetryState


class Parent(Sender, Protocol):
    namespace: str
    external: External | None


class Children:
    """Nothing of it is used by a run without children; `WorkflowRun.children` is None then."""

    __slots__ = ("_made", "_run", "open")

    def __init__(self, run: Parent) -> None:
        self._run = run
        self.open: dict[int, ChildMachine] = {}  # by initiated event id
        self._made = 0

    def start(
        self,
        command: StartChildWorkflow,
        result_hint: Any,
        cancellation: ChildWorkflowCancellationType,
    ) -> ChildMachine:
        run = self._run
        run.check_may_act()
        self._made += 1
        machine = ChildMachine(
            command.workflow_id, command.workflow_type, result_hint, cancellation, self
        )
        machine.started = RequestFuture(run.loop, machine)
        machine.handle = ChildWorkflowHandle(run.loop, machine, self._made)
        machine.entry = run.ledger.add(command, machine)
        return machine

    async def wait_started(self, machine: ChildMachine) -> None:
        """Raises what starting it came to, unless it has started.

        A child that has started in the moment in which the wait is cancelled is cancelled instead:
        nobody else could.
        """
        try:
            await machine.started
            return
        except asyncio.CancelledError:
            is_told = self._run.loop.is_told()
            error = raised_instead(machine.started, machine)
            is_asked = machine.handle.cancel()
            if error is None and not (is_asked and is_told):
                raise
        if error is not None:
            raise error

    def signal(self, machine: ChildMachine, signal: Any, args: Sequence[Any]) -> Awaitable[None]:
        return external_of(self._run).signal(machine.workflow_id, "", signal, args, child_only=True)

    def cancel(self, machine: ChildMachine) -> None:
        run = self._run
        if run.is_evicted:
            machine.started.give_up()
            machine.handle.give_up()
            return
        run.check_may_act()
        state = machine.state
        if state not in NOT_YET_ASKED:
            return  # asked before: what it comes to is waited for
        if state is ChildState.CREATED:
            machine.move(ChildMove.CANCEL)
            assert machine.entry is not None
            machine.entry.command = None
            self.end_cancelled(machine)
            return
        if machine.cancellation is ChildWorkflowCancellationType.ABANDON:
            machine.move(ChildMove.ABANDON)
        else:
            machine.move(ChildMove.CANCEL)
            external_of(run).cancel_child(machine)
        if machine.cancellation in GO_ON_AT_ONCE:
            self.end_cancelled(machine)

    def end_cancelled(self, machine: ChildMachine, details: list[Payload] | None = None) -> None:
        """For those who wait, if they still do."""
        waiting = machine.handle if machine.started.done() else machine.started
        if waiting is machine.started:
            machine.handle.give_up()  # which nobody has
        if waiting.done():
            return
        if machine.by_asyncio:
            waiting.give_up()
            return
        waiting.fail(self.cancelled_error(machine, details))

    def cancelled_error(
        self, machine: ChildMachine, details: list[Payload] | None = None
    ) -> BaseException:
        cause = FailureInfo(message="Cancelled", info=CanceledInfo(details=details or []))
        return self.error(machine, "cancelled", cause, RetryState.NON_RETRYABLE_FAILURE)

    def error(
        self,
        machine: ChildMachine,
        how: str,
        cause: FailureInfo,
        retry_state: RetryState | None,
        run_id: str = "",
    ) -> BaseException:
        """`run_id`: of the last run of its chain, where that is known."""
        failure = FailureInfo(
            message=f"Child Workflow execution {how}",
            cause=cause,
            info=ChildWorkflowInfo(
                namespace=self._run.namespace,
                workflow_id=machine.workflow_id,
                run_id=run_id or machine.run_id,
                workflow_type=machine.workflow_type,
                initiated_event_id=machine.initiated_event_id,
                started_event_id=machine.started_event_id,
                retry_state=retry_state,
            ),
        )
        return failure_to_exception(failure, self._run.converter)


def children_of(run: Any) -> Children:
    """Made when they are first asked for."""
    if run.children is None:
        run.children = Children(run)
    children: Children = run.children
    return children


def external_of(run: Any) -> External:
    """As `children_of`."""
    if run.external is None:
        run.external = External(run)
    external: External = run.external
    return external
