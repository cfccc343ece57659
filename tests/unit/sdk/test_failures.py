"""Exceptions to failures and back."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure._failure_info import ApplicationInfo, CanceledInfo, FailureInfo
from perdure._failures import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    exception_to_failure,
    failure_to_exception,
)
from perdure.converter import Payload, PayloadConverter
from perdure.errors import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    PerdureError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
    WorkerLostError,
    WorkflowFailureError,
    is_cancelled_exception,
)

CONVERTER = PayloadConverter()


def there_and_back(error: BaseException) -> FailureError:
    return failure_to_exception(exception_to_failure(error, CONVERTER), CONVERTER)


def activity_error() -> ActivityError:
    return ActivityError(
        "it failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="w",
        activity_type="charge",
        activity_id="1",
        retry_state=RetryState.TIMEOUT,
    )


def child_error() -> ChildWorkflowError:
    return ChildWorkflowError(
        "it failed",
        namespace="default",
        workflow_id="child",
        run_id="r",
        workflow_type="pack",
        initiated_event_id=5,
        started_event_id=6,
        retry_state=RetryState.RETRY_POLICY_NOT_SET,
    )


EACH: list[FailureError] = [
    ApplicationError(
        "bad",
        1,
        {"a": None},
        type="Mine",
        non_retryable=True,
        next_retry_delay=timedelta(seconds=1.5),
        category="benign",
    ),
    CancelledError("stopped", "why"),
    TimeoutError("late", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[3]),
    TerminatedError("over"),
    ServerError("oh", non_retryable=True),
    WorkerLostError("gone", identity="w"),
    activity_error(),
    child_error(),
]


@pytest.mark.parametrize("error", EACH, ids=[type(e).__name__ for e in EACH])
def test_each_kind_comes_back_as_it_was(error: FailureError) -> None:
    back = there_and_back(error)

    assert type(back) is type(error)
    fields = {**vars(back), "failure": None}
    assert {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()} == {
        k: list(v) if isinstance(v, tuple) else v for k, v in vars(error).items()
    }
    assert str(back) == str(error)


def test_an_exception_of_the_users_becomes_an_application_error_of_its_name() -> None:
    back = there_and_back(KeyError("x"))

    assert isinstance(back, ApplicationError)
    assert (back.type, back.message) == ("KeyError", "'x'")


def test_a_subclass_of_application_error_gives_its_name() -> None:
    class OutOfStock(ApplicationError):
        pass

    back = there_and_back(OutOfStock("none left"))
    assert isinstance(back, ApplicationError)
    assert back.type == "OutOfStock"


def test_causes_are_kept_and_contexts_are_not() -> None:
    def fail() -> None:
        try:
            try:
                raise ValueError("first")
            except ValueError as first:
                raise ApplicationError("second") from first
        except ApplicationError:
            raise RuntimeError("third")  # noqa: B904 - that is the point

    with pytest.raises(RuntimeError) as caught:
        fail()

    assert there_and_back(caught.value).cause is None
    assert caught.value.__context__ is not None
    second = there_and_back(caught.value.__context__)
    assert second.message == "second"
    assert isinstance(second.cause, ApplicationError)
    assert second.cause.type == "ValueError"


def test_what_came_from_the_wire_goes_back_as_it_came() -> None:
    failure = exception_to_failure(activity_error(), CONVERTER)
    error = failure_to_exception(failure, CONVERTER)
    with pytest.raises(FailureError) as caught:
        raise error

    assert exception_to_failure(caught.value, CONVERTER) is failure


def chain(length: int) -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(1, length):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def depth(failure: FailureInfo | None) -> int:
    return 0 if failure is None else 1 + depth(failure.cause)


def test_chains_are_cut_at_their_limit() -> None:
    failure = exception_to_failure(chain(100), CONVERTER)
    assert depth(failure) == DEPTH_MAX == 20
    assert failure.message == "99"

    deep = FailureInfo(message="end")
    for _ in range(100):
        deep = FailureInfo(message="x", cause=deep)
    error: BaseException | None = failure_to_exception(deep, CONVERTER)
    causes = 0
    while error is not None:
        causes, error = causes + 1, error.__cause__
    assert causes == DEPTH_MAX


def test_a_ring_of_causes_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first

    assert depth(exception_to_failure(first, CONVERTER)) == DEPTH_MAX


def test_long_texts_are_cut() -> None:
    # Python shortens recursion by itself; different lines do not repeat.
    code = "\n".join(
        [
            "def f0(): raise ValueError('é' * 20000)",
            *[f"def f{n}(): f{n - 1}()" for n in range(1, 700)],
        ]
    )
    scope: dict[str, Any] = {}
    exec(code, scope)
    with pytest.raises(ValueError, match="é") as caught:
        scope["f699"]()
    failure = exception_to_failure(caught.value, CONVERTER)

    assert len(failure.message.encode()) <= TEXT_BYTES_MAX == 16 * 1024
    assert len(failure.stack_trace.encode()) <= TEXT_BYTES_MAX
    assert "in f0" in failure.stack_trace  # the end, where it happened
    assert "in f699" not in failure.stack_trace


def test_details_that_cannot_be_encoded_are_left_out_and_said() -> None:
    failure = exception_to_failure(ApplicationError("bad", object()), CONVERTER)

    assert isinstance(failure.info, ApplicationInfo)
    assert failure.info.details == []
    assert failure.message.startswith("bad (a value of type builtins.object cannot be encoded")


def test_details_that_cannot_be_decoded_stay_payloads() -> None:
    payload = Payload("binary/encrypted", b"?")
    error = failure_to_exception(
        FailureInfo(message="x", info=CanceledInfo(details=[payload])), CONVERTER
    )
    assert isinstance(error, CancelledError)
    assert list(error.details) == [payload]


def test_an_exception_that_cannot_be_shown_is_still_a_failure() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    failure = exception_to_failure(Rude(), CONVERTER)
    assert failure.message == "(its __str__ raised RuntimeError)"


def test_a_failure_of_an_unknown_kind_is_a_failure_error() -> None:
    error = failure_to_exception(FailureInfo(message="new kind"), CONVERTER)

    assert type(error) is FailureError
    assert str(error) == "new kind"


def test_what_a_cancellation_looks_like() -> None:
    cancelled = activity_error()
    cancelled.__cause__ = CancelledError()

    assert is_cancelled_exception(asyncio.CancelledError())
    assert is_cancelled_exception(CancelledError())
    assert is_cancelled_exception(cancelled)
    assert not is_cancelled_exception(activity_error())
    child = child_error()
    assert not is_cancelled_exception(child)
    child.__cause__ = CancelledError()
    assert is_cancelled_exception(child)
    all_of_them = [cancelled, ExceptionGroup("of it", [child])]
    assert is_cancelled_exception(ExceptionGroup("cancelled", all_of_them))
    one_else = ExceptionGroup("of it", [child, ValueError()])
    assert not is_cancelled_exception(ExceptionGroup("one is not", [cancelled, one_else]))
    assert isinstance(there_and_back(asyncio.CancelledError()), CancelledError)


def test_a_workflow_failure_has_its_cause() -> None:
    error = WorkflowFailureError(cause=ApplicationError("bad"))

    assert isinstance(error, PerdureError)
    assert isinstance(error.cause, ApplicationError)
    assert "bad" in str(error)
