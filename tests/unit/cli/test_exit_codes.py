"""Which error ends a command how, and with which words."""

import pytest

from perdure.cli.errors import CliError, ExitCode, UsageError, exit_code_of, lines_of
from perdure.errors import (
    ActivityError,
    ApplicationError,
    CancelledError,
    FailureError,
    PayloadEncodeError,
    RPCError,
    RPCStatusCode,
    TerminatedError,
    TimeoutError,
    TimeoutType,
    WorkflowAlreadyStartedError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
)


def refused(status: RPCStatusCode) -> RPCError:
    return RPCError("no", status)


def ended(cause: FailureError) -> WorkflowFailureError:
    return WorkflowFailureError(cause=cause)


def test_the_numbers_are_a_contract() -> None:
    assert {one.name: int(one) for one in ExitCode} == {
        "OK": 0,
        "ERROR": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "FAILED": 4,
        "TIMED_OUT": 5,
        "CANCELLED": 6,
        "INTERRUPTED": 130,
        "TERMINATED": 143,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CliError("x"), ExitCode.ERROR),
        (UsageError("x"), ExitCode.USAGE),
        (PayloadEncodeError("x"), ExitCode.USAGE),
        (refused(RPCStatusCode.INVALID_ARGUMENT), ExitCode.USAGE),
        (refused(RPCStatusCode.NOT_FOUND), ExitCode.NOT_FOUND),
        (refused(RPCStatusCode.DEADLINE_EXCEEDED), ExitCode.TIMED_OUT),
        (refused(RPCStatusCode.UNAVAILABLE), ExitCode.ERROR),
        (refused(RPCStatusCode.PERMISSION_DENIED), ExitCode.ERROR),
        (WorkflowAlreadyStartedError("id", "Type"), ExitCode.ERROR),
        (WorkflowQueryFailedError("x"), ExitCode.ERROR),
        (ended(ApplicationError("x")), ExitCode.FAILED),
        (ended(TerminatedError("x")), ExitCode.FAILED),
        (ended(TimeoutError("x", type=TimeoutType.START_TO_CLOSE)), ExitCode.TIMED_OUT),
        (ended(CancelledError()), ExitCode.CANCELLED),
    ],
)
def test_exit_codes(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_a_failure_is_told_down_to_its_root() -> None:
    activity = ActivityError(
        "charge failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="worker",
        activity_type="charge",
        activity_id="1",
        retry_state=None,
    )
    activity.__cause__ = ApplicationError("no money", type="Refused")

    assert list(lines_of(ended(activity))) == [
        "The workflow did not complete: ActivityError: charge failed",
        "caused by Refused: no money",
    ]


def test_a_refusal_names_the_fields_at_fault() -> None:
    error = RPCError(
        "bad request",
        RPCStatusCode.INVALID_ARGUMENT,
        field_violations=[("workflow_id", "is longer than 255 bytes")],
    )

    assert list(lines_of(error)) == [
        "bad request (INVALID_ARGUMENT)",
        "workflow_id: is longer than 255 bytes",
    ]


def test_without_an_engine_the_reader_is_told_how_to_get_one() -> None:
    assert any("perdure dev" in line for line in lines_of(refused(RPCStatusCode.UNAVAILABLE)))


def test_what_the_message_says_already_is_not_said_again() -> None:
    problem = "workflow_id: is too long"
    error = RPCError(
        problem, RPCStatusCode.INVALID_ARGUMENT, field_violations=[("workflow_id", problem)]
    )

    assert list(lines_of(error)) == [f"{problem} (INVALID_ARGUMENT)"]
