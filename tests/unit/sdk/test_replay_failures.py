"""Whose fault: what fails the run, and what only the workflow task."""

# ruff: noqa: TID251 - asyncio.sleep(0) on the loop under test

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import workflow
from perdure._failure_info import ApplicationInfo
from perdure._replay.interrupts import DeadlockDetected
from perdure._replay.messages import FailWorkflow, TaskSuccess
from perdure.common import RawValue, VersioningBehavior
from perdure.errors import (
    ApplicationError,
    NondeterminismError,
    PayloadDecodeError,
    UnknownWorkflowTypeError,
)


def raising(error: BaseException, **options: Any) -> type:
    @workflow.defn(**options)
    class Raising:
        @workflow.run
        async def run(self) -> NoReturn:
            raise error

    return Raising


@pytest.mark.parametrize(
    ("error", "type_", "message"),
    [
        (ValueError("bad"), "ValueError", "bad"),
        (ApplicationError("bad", type="Mine"), "Mine", "bad"),
        (ApplicationError("bad"), "", "bad"),
        (RuntimeError(), "RuntimeError", ""),
    ],
)
def test_an_exception_fails_the_run(error: Exception, type_: str, message: str) -> None:
    (command,) = PocketEngine(raising(error)).task()

    assert isinstance(command, FailWorkflow)
    assert isinstance(command.failure.info, ApplicationInfo)
    assert (command.failure.info.type, command.failure.message) == (type_, message)
    assert "Raising.run" not in command.failure.message
    assert "in run" in command.failure.stack_trace


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (NondeterminismError("?"), "NON_DETERMINISM"),
        (PayloadDecodeError("?"), "PAYLOAD_DECODE"),
        (UnknownWorkflowTypeError("?", []), "UNKNOWN_WORKFLOW_TYPE"),
        (DeadlockDetected(), "DEADLOCK"),
        (SystemExit(1), "WORKER_FAILURE"),
    ],
)
def test_a_defect_fails_the_task(error: BaseException, cause: str) -> None:
    assert PocketEngine(raising(error)).failed_task().cause.name == cause


def test_a_defect_stays_one_when_the_code_wraps_it() -> None:
    @workflow.defn
    class Wrapping:
        @workflow.run
        async def run(self) -> None:
            async def step() -> None:
                try:
                    raise NondeterminismError("deep down")
                except Exception as error:
                    raise ApplicationError("wrapped") from error

            async with asyncio.TaskGroup() as group:
                group.create_task(step())

    assert PocketEngine(Wrapping).failed_task().cause.name == "NON_DETERMINISM"


def test_failure_exception_types_let_a_defect_fail_the_run() -> None:
    cls = raising(PayloadDecodeError("odd"), failure_exception_types=[PayloadDecodeError])

    assert names(PocketEngine(cls).task()) == ["FailWorkflow odd"]


@pytest.mark.parametrize(
    ("types", "fails"), [((PayloadDecodeError,), False), ((NondeterminismError,), True), ((), True)]
)
def test_failure_types_of_the_worker_are_those_of_update_handlers_too(
    types: tuple[type[BaseException], ...], fails: bool
) -> None:
    @workflow.defn
    class Updating:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.update
        async def change(self) -> None:
            raise PayloadDecodeError("odd")

    run = PocketEngine(Updating, failure_exception_types=types)
    run.task()
    run.update("u-1", "change")
    if fails:
        assert run.failed_task().cause.name == "PAYLOAD_DECODE"
    else:
        run.task()
        failure = run.outcomes["u-1"].failure
        assert failure is not None
        assert failure.message == "odd"


@workflow.defn(dynamic=True, failure_exception_types=[NondeterminismError])
class Configured:
    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> None:
        raise PayloadDecodeError("odd")

    @workflow.dynamic_config
    def config(self) -> workflow.DynamicWorkflowConfig:
        if workflow.info().workflow_type == "broken":
            raise ApplicationError("no config")
        if workflow.info().workflow_type != "strict":
            return workflow.DynamicWorkflowConfig()
        return workflow.DynamicWorkflowConfig(
            failure_exception_types=[PayloadDecodeError],
            versioning_behavior=VersioningBehavior.PINNED,
        )


def test_a_dynamic_workflow_is_configured_by_its_type() -> None:
    strict = PocketEngine(Configured, started={"workflow_type": "strict"}, versioning_behavior=2)
    outcome = strict.run_task()
    assert isinstance(outcome, TaskSuccess)
    assert names(outcome.commands) == ["FailWorkflow odd"]
    assert outcome.versioning_behavior == VersioningBehavior.PINNED

    loose = PocketEngine(Configured, started={"workflow_type": "loose"})
    assert loose.failed_task().cause.name == "PAYLOAD_DECODE"
    by_worker = {"failure_exception_types": (PayloadDecodeError,), "versioning_behavior": 2}
    loose = PocketEngine(Configured, started={"workflow_type": "loose"}, **by_worker)
    outcome = loose.run_task()
    assert isinstance(outcome, TaskSuccess)
    assert names(outcome.commands) == ["FailWorkflow odd"]
    assert outcome.versioning_behavior == VersioningBehavior.AUTO_UPGRADE

    broken = PocketEngine(Configured, started={"workflow_type": "broken"})
    assert names(broken.task()) == ["FailWorkflow no config"]


def test_keyboard_interrupt_is_not_ours_to_keep() -> None:
    run = PocketEngine(raising(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        run.run_task()


@workflow.defn
class Typed:
    @workflow.run
    async def run(self, number: int, name: str = "x") -> str:
        return f"{name}{number}"


@pytest.mark.parametrize(
    ("args", "expected"),
    [((1,), "CompleteWorkflow x1"), ((1, "y"), "CompleteWorkflow y1")],
)
def test_arguments_may_be_left_out_where_there_is_a_default(
    args: tuple[Any, ...], expected: str
) -> None:
    assert names(PocketEngine(Typed, *args).task()) == [expected]


@pytest.mark.parametrize("args", [(), (1, "y", 2), ("one",)])
def test_arguments_that_do_not_fit_fail_the_task(args: tuple[Any, ...]) -> None:
    assert PocketEngine(Typed, *args).failed_task().cause.name == "PAYLOAD_DECODE"


def test_a_result_that_cannot_be_encoded_fails_the_run() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def run(self) -> Callable[[], None]:
            return lambda: None

    (name,) = names(PocketEngine(Odd).task())
    assert name.startswith("FailWorkflow a value of type builtins.function cannot be encoded")


def test_an_error_in_init_fails_the_run() -> None:
    @workflow.defn
    class Odd:
        def __init__(self) -> None:
            raise ValueError("at once")

        @workflow.run
        async def run(self) -> None: ...

    assert names(PocketEngine(Odd).task()) == ["FailWorkflow at once"]


def test_init_may_take_the_input() -> None:
    @workflow.defn
    class Prepared:
        @workflow.init
        def __init__(self, number: int) -> None:
            self.number = number * 2

        @workflow.run
        async def run(self, number: int) -> int:
            return self.number + number

    assert names(PocketEngine(Prepared, 7).task()) == ["CompleteWorkflow 21"]


def test_what_is_ready_when_the_run_ends_still_runs_and_does_nothing() -> None:
    """Handlers may be about to answer. What else is asked for comes too late."""

    @workflow.defn
    class Leaving:
        def __init__(self) -> None:
            self.end = asyncio.Event()

        @workflow.signal
        def leave(self) -> None:
            self.end.set()

        async def late(self) -> None:
            await asyncio.sleep(0)
            await self.end.wait()
            seen.append("was ready too")
            await workflow.sleep(1)

        @workflow.run
        async def run(self) -> None:
            self.task = asyncio.ensure_future(self.late())
            await self.end.wait()
            asyncio.get_running_loop().call_soon(seen.append, "made ready")

    seen: list[str] = []
    run = PocketEngine(Leaving)
    run.task()
    run.signal("leave")
    assert names(run.task()) == ["CompleteWorkflow None"]
    assert seen == ["was ready too", "made ready"]
    assert names(run.replay()) == ["CompleteWorkflow None"]


def test_the_first_word_of_the_end_counts() -> None:
    """A handler fails the run, and the code that it has woken returns."""

    @workflow.defn
    class Both:
        def __init__(self) -> None:
            self.heard = False

        @workflow.signal
        def crack(self) -> None:
            self.heard = True
            raise ValueError("broken")

        @workflow.run
        async def run(self) -> str:
            await workflow.wait_condition(lambda: self.heard)
            returned.append(True)
            return "done"

    returned: list[bool] = []
    run = PocketEngine(Both)
    run.task()
    run.signal("crack")

    assert names(run.task()) == ["FailWorkflow broken"]
    assert returned == [True]
    assert names(run.replay()) == ["FailWorkflow broken"]
