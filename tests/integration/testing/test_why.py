"""`perdure workflow why`, from a worker's code to what an operator reads: what the run's shard alone cannot say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import activity, workflow
from perdure.client import WaitKind, WaitReason, WorkflowHandle, WorkflowUpdateStage
from perdure.common import SAGA_SIGNAL, RetryPolicy
from perdure.errors import ApplicationError, WorkflowFailureError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

QUEUE = "q"
LIMIT = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@activity.defn
async def refund() -> None:
    raise ApplicationError("card 4711", type="BankClosed", non_retryable=True)


@workflow.defn
class Booking:
    @workflow.run
    async def run(self) -> None:
        async with workflow.saga() as saga:
            saga.add(workflow.execute_activity, refund, start_to_close_timeout=LIMIT)
            raise ApplicationError("no seat", non_retryable=True)


@workflow.defn
class Patient:
    """Takes an update, whose handler waits for a signal."""

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.told)

    @workflow.update
    async def ask(self) -> None:
        await workflow.wait_condition(lambda: self.told)

    @workflow.signal
    def tell(self) -> None:
        self.told = True


@workflow.defn
class Failing:
    @workflow.run
    async def run(self) -> None:
        raise ApplicationError("again")


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Booking, Patient, Failing],
            activities=[refund],
            graceful_shutdown_timeout=timedelta(),
        )
        async with worker:
            yield env


async def until(handle: WorkflowHandle[object, object], kind: WaitKind) -> WaitReason:
    """The reason, once it is one. Each look is a call, so the engine goes on meanwhile."""
    while True:
        found = {reason.kind: reason for reason in await handle.explain()}
        if kind in found:
            return found[kind]


async def test_a_saga_that_waits_for_an_operator_says_so_until_it_was_told(
    env: WorkflowEnvironment,
) -> None:
    handle = await env.client.start_workflow(Booking.run, id="booking", task_queue=QUEUE)
    reason = await until(handle, WaitKind.SAGA)

    assert reason.subject == "refund"
    assert reason.last_failure is not None
    assert reason.last_failure.message == "BankClosed", "never the message, which may be encoded"
    assert [one.kind for one in await handle.explain()] == [WaitKind.SAGA]
    await handle.signal(SAGA_SIGNAL, {"action": "skip", "reason": "paid by hand"})
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert [one.kind for one in await handle.explain()] == [WaitKind.CLOSED]


async def test_an_update_and_the_next_attempt_of_a_run(env: WorkflowEnvironment) -> None:
    patient = await env.client.start_workflow(Patient.run, id="patient", task_queue=QUEUE)
    asked = await patient.start_update(
        Patient.ask, id="u-1", wait_for_stage=WorkflowUpdateStage.ACCEPTED
    )
    assert (await until(patient, WaitKind.UPDATE_RUNNING)).subject == "u-1"
    await patient.signal(Patient.tell)
    await asked.result()

    failing = await env.client.start_workflow(
        Failing.run, id="failing", task_queue=QUEUE, retry_policy=RetryPolicy(initial_interval=HOUR)
    )
    newest = env.client.get_workflow_handle(failing.id)
    reason = await until(newest, WaitKind.RETRY_BACKOFF)
    assert reason.attempt >= 2
    assert reason.since is not None
    assert reason.until is not None
    assert reason.until - reason.since >= HOUR
    assert reason.last_failure is not None
    assert reason.last_failure.message == "again"
    await newest.terminate()
