"""What a run does to other runs: signals and requests to cancel, its children's among them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from perdure._definitions import signal_definition
from perdure._interceptors.workflow import (
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    WorkflowOutboundInterceptor,
)
from perdure._payload import Payload
from perdure._replay.external_messages import (
    RequestCancelExternalWorkflow,
    SignalExternalWorkflow,
)
from perdure._replay.ledger import Ledger
from perdure._replay.loop import DeterministicLoop
from perdure._replay.machines.child import ChildMachine
from perdure._replay.machines.external_cancel import ExternalCancelMachine
from perdure._replay.machines.external_signal import (
    ExternalSignalMachine,
    ExternalSignalMove,
    ExternalSignalState,
)
from perdure._replay.messages import NO_HEADER
from perdure._replay.request_future import RequestFuture
from perdure.converter import PayloadConverter
from perdure.errors import ApplicationError, CancelledError

# What the engine says of a message that was not taken: why, as users of this field read it, and the error's type.
_SIGNAL_REASONS = {
    "NOT_FOUND": ("it was not found", "ExternalWorkflowExecutionNotFound"),
    "LIMIT": ("The per-workflow signal limit was exceeded", "SignalCountLimitExceeded"),
}
_CANCEL_REASONS = {"NOT_FOUND": ("not found", "ExternalWorkflowExecutionNotFound")}


class Sender(Protocol):
    """What this needs of its run."""

    loop: DeterministicLoop
    ledger: Ledger
    converter: PayloadConverter
    cancel_reason: str
    namespace: str
    outbound: WorkflowOutboundInterceptor | None

    @property
    def is_evicted(self) -> bool: ...

    def check_may_act(self) -> None: ...


class External:
    """Nothing of it is used by a run that leaves others alone; `WorkflowRun.external` is None then."""

    __slots__ = ("_run", "cancels", "signals")

    def __init__(self, run: Sender) -> None:
        self._run = run
        self.signals: dict[int, ExternalSignalMachine] = {}  # the open ones, by initiated event id
        self.cancels: dict[int, ExternalCancelMachine] = {}

    def signal(
        self,
        workflow_id: str,
        run_id: str,
        signal: Any,
        args: Sequence[Any],
        *,
        child_only: bool = False,
    ) -> Awaitable[None]:
        """Raises TypeError for what is no signal, PayloadEncodeError for arguments that cannot travel."""
        run = self._run
        run.check_may_act()
        name = signal if isinstance(signal, str) else signal_definition(signal).name
        if run.outbound is None:
            return self.send(workflow_id, run_id, name, args, NO_HEADER, child_only=child_only)
        if child_only:
            to_child = SignalChildWorkflowInput(
                signal=name, args=args, child_workflow_id=workflow_id, headers=NO_HEADER
            )
            return run.outbound.signal_child_workflow(to_child)
        asked = SignalExternalWorkflowInput(
            signal=name,
            args=args,
            namespace=run.namespace,
            workflow_id=workflow_id,
            workflow_run_id=run_id or None,
            headers=NO_HEADER,
        )
        return run.outbound.signal_external_workflow(asked)

    def send(
        self,
        workflow_id: str,
        run_id: str,
        name: str,
        args: Sequence[Any],
        header: Mapping[str, Payload],
        *,
        child_only: bool,
    ) -> RequestFuture[None]:
        """What `signal` does behind all interceptors."""
        run = self._run
        command = SignalExternalWorkflow(
            workflow_id=workflow_id,
            run_id=run_id,
            signal_name=name,
            input=run.converter.to_payloads(args),
            header=header,
            child_workflow_only=child_only,
        )
        machine = ExternalSignalMachine(workflow_id, name, self)
        machine.future = RequestFuture(run.loop, machine)
        machine.entry = run.ledger.add(command, machine)
        return machine.future

    def cancel_signal(self, machine: ExternalSignalMachine) -> None:
        if self._run.is_evicted:
            machine.future.give_up()
        elif machine.state is ExternalSignalState.CREATED:
            self._run.check_may_act()
            machine.move(ExternalSignalMove.CANCEL)
            assert machine.entry is not None
            machine.entry.command = None
            if machine.by_asyncio:
                machine.future.give_up()
            else:
                machine.future.fail(CancelledError("Signal was cancelled before being sent"))

    def request_cancel(
        self, workflow_id: str, run_id: str, reason: str = ""
    ) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._run.loop.create_future()
        self._request_cancel(ExternalCancelMachine(workflow_id, future=future), run_id, reason)
        return future

    def cancel_child(self, child: ChildMachine) -> None:
        """By its id alone: of a chain, whichever run is the current one."""
        machine = ExternalCancelMachine(child.workflow_id, child=child)
        self._request_cancel(machine, "", self._run.cancel_reason)

    def _request_cancel(self, machine: ExternalCancelMachine, run_id: str, reason: str) -> None:
        self._run.check_may_act()
        command = RequestCancelExternalWorkflow(
            workflow_id=machine.target,
            run_id=run_id,
            child_workflow_only=machine.child is not None,
            reason=reason,
        )
        self._run.ledger.add(command, machine)


def signal_error(cause: str) -> ApplicationError:
    reason, kind = _SIGNAL_REASONS.get(cause, ("unknown", cause))
    return ApplicationError(f"Unable to signal external workflow because {reason}", type=kind)


def cancel_error(cause: str) -> ApplicationError:
    reason, kind = _CANCEL_REASONS.get(cause, ("unknown", cause))
    return ApplicationError(f"Unable to cancel external workflow because {reason}", type=kind)
