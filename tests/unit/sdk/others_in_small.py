"""The part of the pocket engine that plays children and other runs."""

from __future__ import annotations

from typing import Any

from perdure._failures import exception_to_failure
from perdure._replay import external_messages as x
from perdure._replay import messages as m
from perdure.converter import DataConverter
from perdure.errors import RetryState

CONVERTER = DataConverter.default.payload_converter
OTHERS = (x.StartChildWorkflow, x.SignalExternalWorkflow, x.RequestCancelExternalWorkflow)


class OtherRuns:
    """A child is meant by its workflow id, a signal or a cancel by the id of its target: the last one of it."""

    events: list[m.Event]

    def add(self, kind: type[m.Event], /, **fields: Any) -> int:
        raise NotImplementedError

    # --- children ---------------------------------------------------------------------------------

    def child_started(self, workflow_id: str) -> None:
        self.add(
            x.ChildWorkflowExecutionStarted,
            initiated_event_id=self.initiated(workflow_id),
            run_id=f"run of {workflow_id}",
        )

    def child_id_taken(self, workflow_id: str) -> None:
        initiated = self.initiated(workflow_id)
        self.add(x.StartChildWorkflowExecutionFailed, initiated_event_id=initiated)

    def child_completed(self, workflow_id: str, value: Any = None) -> None:
        self.add(
            x.ChildWorkflowExecutionCompleted,
            initiated_event_id=self.initiated(workflow_id),
            result=CONVERTER.to_payloads([value]),
        )

    def child_failed(
        self,
        workflow_id: str,
        error: BaseException,
        retry_state: RetryState = RetryState.RETRY_POLICY_NOT_SET,
    ) -> None:
        failure = exception_to_failure(error, CONVERTER)
        self._ended(
            x.ChildWorkflowExecutionFailed, workflow_id, failure=failure, retry_state=retry_state
        )

    def child_canceled(self, workflow_id: str, *details: Any) -> None:
        payloads = CONVERTER.to_payloads(details)
        self._ended(x.ChildWorkflowExecutionCanceled, workflow_id, details=payloads)

    def child_timed_out(self, workflow_id: str) -> None:
        self._ended(x.ChildWorkflowExecutionTimedOut, workflow_id, retry_state=RetryState.TIMEOUT)

    def child_terminated(self, workflow_id: str) -> None:
        self._ended(x.ChildWorkflowExecutionTerminated, workflow_id)

    def _ended(self, kind: type[m.Event], workflow_id: str, **fields: Any) -> None:
        """A child that was not started is cancelled as one that never was: its start is taken back."""
        initiated = self.initiated(workflow_id)
        started = [
            event.event_id
            for event in self.events
            if isinstance(event, x.ChildWorkflowExecutionStarted)
            and event.initiated_event_id == initiated
        ]
        self.add(
            kind,
            initiated_event_id=initiated,
            started_event_id=started[0] if started else 0,
            run_id=f"last run of {workflow_id}" if started else "",
            **fields,
        )

    def initiated(self, workflow_id: str) -> int:
        return self._last(x.StartChildWorkflowExecutionInitiated, workflow_id)

    # --- signals and requests to cancel -----------------------------------------------------------

    def signal_delivered(self, workflow_id: str) -> None:
        initiated = self._last(x.SignalExternalWorkflowExecutionInitiated, workflow_id)
        self.add(x.ExternalWorkflowExecutionSignaled, initiated_event_id=initiated)

    def signal_refused(self, workflow_id: str, cause: str = "NOT_FOUND") -> None:
        initiated = self._last(x.SignalExternalWorkflowExecutionInitiated, workflow_id)
        self.add(x.SignalExternalWorkflowExecutionFailed, initiated_event_id=initiated, cause=cause)

    def cancel_delivered(self, workflow_id: str) -> None:
        initiated = self._last(x.RequestCancelExternalWorkflowExecutionInitiated, workflow_id)
        self.add(x.ExternalWorkflowExecutionCancelRequested, initiated_event_id=initiated)

    def cancel_refused(self, workflow_id: str, cause: str = "NOT_FOUND") -> None:
        initiated = self._last(x.RequestCancelExternalWorkflowExecutionInitiated, workflow_id)
        self.add(
            x.RequestCancelExternalWorkflowExecutionFailed,
            initiated_event_id=initiated,
            cause=cause,
        )

    def _last(self, kind: type[Any], workflow_id: str) -> int:
        for event in reversed(self.events):
            if isinstance(event, kind) and event.workflow_id == workflow_id:
                event_id: int = event.event_id
                return event_id
        raise AssertionError(f"no {kind.__name__} of {workflow_id!r}")

    # --- commands ---------------------------------------------------------------------------------

    def write_other(self, command: m.Command) -> None:
        match command:
            case x.StartChildWorkflow():
                self.add(
                    x.StartChildWorkflowExecutionInitiated,
                    workflow_id=command.workflow_id,
                    workflow_type=command.workflow_type,
                )
            case x.SignalExternalWorkflow():
                self.add(
                    x.SignalExternalWorkflowExecutionInitiated,
                    workflow_id=command.workflow_id,
                    signal_name=command.signal_name,
                )
            case x.RequestCancelExternalWorkflow():
                self.add(
                    x.RequestCancelExternalWorkflowExecutionInitiated,
                    workflow_id=command.workflow_id,
                )
            case _:
                raise AssertionError(command)


def telling(command: m.Command) -> tuple[Any, ...] | None:
    """What a command of these kinds says in short; None: it is of another."""
    match command:
        case x.StartChildWorkflow():
            return command.workflow_id, command.workflow_type
        case x.SignalExternalWorkflow():
            return command.workflow_id, command.signal_name
        case x.RequestCancelExternalWorkflow():
            return (command.workflow_id,)
        case _:
            return None
