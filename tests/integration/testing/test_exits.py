"""`sys.exit` in the code of an activity or a job fails that attempt; its worker goes on, with all else that it has.

Libraries call it (argparse, click): nobody who calls them means the worker.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from perdure import activity, job, workflow
from perdure._worker.exits import is_of_the_process
from perdure.common import RetryPolicy
from perdure.errors import ActivityError, ApplicationError, JobFailedError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

QUEUE = "queue"
SOON = timedelta(seconds=30)
ONCE = RetryPolicy(maximum_attempts=1)


class EndsEverything(BaseException):
    """What `except Exception` does not catch."""


@activity.defn
async def leave(code: int | str | None) -> None:
    sys.exit(code)


@activity.defn
def leave_in_thread(code: int | str | None) -> None:
    sys.exit(code)


@activity.defn
async def end(code: int | str | None) -> None:
    raise EndsEverything(code)


@activity.defn
async def leave_to_others(code: int | str | None) -> None:
    activity.raise_complete_async()


@job.defn
def leave_a_job(code: int | str | None) -> None:
    sys.exit(code)


@activity.defn
async def echo(word: str) -> str:
    return word


@workflow.defn
class Calls:
    @workflow.run
    async def run(self, name: str, code: int | str | None, local: bool) -> str:
        call = workflow.execute_local_activity if local else workflow.execute_activity
        try:
            await call(name, code, start_to_close_timeout=SOON, retry_policy=ONCE)
        except ActivityError as error:
            return str(error.cause)
        return "it returned"


async def told(
    name: str, code: int | str | None, *, local: bool = False, executor: Executor | None = None
) -> str:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Calls],
            activities=[leave, leave_in_thread, end, leave_to_others, echo],
            activity_executor=executor,
        ),
    ):
        failed = await env.client.execute_workflow(
            Calls.run, args=[name, code, local], id="calls", task_queue=QUEUE
        )
        returned = await env.client.execute_workflow(
            Calls.run, args=["echo", "word", local], id="after", task_queue=QUEUE
        )
        assert returned == "it returned"
        return failed


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("name", ["leave", "leave_in_thread"])
@pytest.mark.parametrize(
    ("code", "message"),
    [(7, "sys.exit(7)"), (None, "sys.exit(None)"), ("gone", "sys.exit('gone')")],
)
async def test_it_is_a_failure_by_name(
    name: str, code: int | str | None, message: str, local: bool
) -> None:
    assert await told(name, code, local=local) == f"SystemExit: {message}"


@pytest.mark.parametrize("local", [False, True])
async def test_whatever_else_is_no_exception_is_one_too(local: bool) -> None:
    """It would be nobody's: the attempt would never be heard of again."""
    assert await told("end", 1, local=local) == "EndsEverything: 1"


async def test_a_local_activity_cannot_be_left_to_others() -> None:
    failed = await told("leave_to_others", None, local=True)
    assert failed.startswith("RuntimeError: a job or a local activity cannot be completed")


async def test_in_a_process_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its path is ours: it imports this module by its name.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # type: ignore[no-untyped-call]  # pytest's
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert await told("leave_in_thread", 7, executor=pool) == "SystemExit: sys.exit(7)"


async def test_a_job() -> None:
    with ThreadPoolExecutor(1) as pool:
        async with (
            await WorkflowEnvironment.start_time_skipping() as env,
            Worker(
                env.client, task_queue=QUEUE, activities=[leave_a_job, echo], activity_executor=pool
            ),
        ):
            guilty = await env.client.jobs.create(leave_a_job, 7, queue=QUEUE, retry_policy=ONCE)
            with pytest.raises(JobFailedError) as failed:
                await guilty.result()
            beside = await env.client.jobs.create("echo", "word", queue=QUEUE, result_type=str)
            assert await beside.result() == "word"
    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, failed.value.cause.message) == ("SystemExit", "sys.exit(7)")


class Stopping:
    def stop(self, *_: object) -> None:
        sys.exit(3)

    __call__ = stop


def stop(*_: object) -> None:
    sys.exit(3)


@pytest.mark.parametrize("handler", [stop, partial(stop, None), Stopping().stop, Stopping()])
def test_whose_exit_it_is(handler: Callable[..., object]) -> None:
    """A handler ends the process, as whoever sent the signal wants, in whatever code the main thread happens to be."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SystemExit) as sent:
            signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(SystemExit) as called:
            sys.exit(3)
        assert is_of_the_process(sent.value)
        assert not is_of_the_process(called.value)
    finally:
        signal.signal(signal.SIGUSR1, before)
