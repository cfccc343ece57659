"""A saga's compensations in the audit log, from a worker's code to `list_audit`, codec and all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.engine_node import running_node

from perdure import activity, workflow
from perdure.client import Client
from perdure.common import SAGA_SIGNAL, RetryPolicy
from perdure.errors import ApplicationError, WorkflowFailureError
from perdure.worker import Worker

ONCE = {
    "start_to_close_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(maximum_attempts=1),
}
broken: list[bool] = []


@activity.defn
async def refund() -> None:
    if broken:
        broken.pop()
        raise ApplicationError("card 4711", type="BankClosed")


@activity.defn
async def release_seat() -> None: ...


@workflow.defn
class Booking:
    @workflow.run
    async def run(self) -> None:
        async with workflow.saga() as saga:
            saga.add(workflow.execute_activity, release_seat, **ONCE)
            saga.add(workflow.execute_activity, refund, **ONCE)
            raise ApplicationError("no seat", non_retryable=True)


async def test_b8_every_compensation_and_every_word_of_an_operator_is_in_the_log(
    database_dsn: str,
) -> None:
    broken[:] = [True]
    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address, identity="op@host")
        async with Worker(
            client, task_queue="q", workflows=[Booking], activities=[refund, release_seat]
        ):
            handle = await client.start_workflow(Booking.run, id="booking", task_queue="q")
            parked = None
            while parked is None:
                async for entry in client.operator.list_audit(workflow_id="booking"):
                    parked = entry
            await handle.signal(SAGA_SIGNAL, {"action": "retry", "reason": "bank is open"})
            with pytest.raises(WorkflowFailureError):
                await handle.result()
        found = [entry async for entry in client.operator.list_audit(workflow_id="booking")]
        assert [
            (entry.action, entry.subject, entry.after, entry.reason) for entry in found[::-1]
        ] == [
            ("saga.compensation", "refund", "parked", "BankClosed"),
            ("saga.word", "", "", ""),
            ("saga.compensation", "refund", "retried", "bank is open"),
            ("saga.compensation", "refund", "completed", ""),
            ("saga.compensation", "release_seat", "completed", ""),
        ]
        assert found[-2].identity == "op@host"
        assert (await client.operator.verify_audit()).broken == []
        await client.close()
