"""What handles of clients promise, around the real engine: which runs they reach, what is told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import workflow
from perdure.client import (
    Client,
    RPCError,
    RPCStatusCode,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryRejectedError,
    WorkflowStatus,
    WorkflowUpdateStage,
)
from perdure.common import (
    QueryRejectCondition,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
)
from perdure.errors import ApplicationError, TerminatedError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

QUEUE = "queue"
NONE, NOT_OPEN, NOT_COMPLETED_CLEANLY = QueryRejectCondition


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.address = ""
        self.end = ""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: bool(self.end))
        if self.end == "fail":
            raise ApplicationError("no")
        if self.end == "again":
            workflow.continue_as_new()
        return self.address

    @workflow.signal
    def finish(self, how: str) -> None:
        self.end = how

    @workflow.update
    def set_address(self, address: str) -> str:
        before, self.address = self.address, address
        return before

    @workflow.query
    def get_address(self) -> str:
        return self.address


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        Worker(env.client, task_queue=QUEUE, workflows=[Order, Moving]),
    ):
        yield env.client


async def started(client: Client, workflow_id: str = "one") -> WorkflowHandle[Order, str]:
    return await client.start_workflow(Order.run, id=workflow_id, task_queue=QUEUE)


# --- which runs updates reach ----------------------------------------------------------------------


async def test_an_update_does_not_reach_a_chain_that_its_handle_did_not_start(
    client: Client,
) -> None:
    first = await started(client)
    assert await first.execute_update(Order.set_address, "Here", id="u") == ""
    await first.terminate()
    second = await started(client)
    named = client.get_workflow_handle_for(
        Order.run, "one", first_execution_run_id=first.first_execution_run_id
    )
    for stale in (first, named):
        with pytest.raises(RPCError) as failed:
            await stale.execute_update(Order.set_address, "There")
        assert failed.value.status is RPCStatusCode.NOT_FOUND
    accepted = WorkflowUpdateStage.ACCEPTED
    with pytest.raises(RPCError) as failed:
        await first.start_update(Order.set_address, "There", wait_for_stage=accepted)
    assert failed.value.status is RPCStatusCode.NOT_FOUND
    assert await second.query(Order.get_address) == ""
    assert await client.get_workflow_handle("one").execute_update("set_address", "Home") == ""


async def test_an_update_follows_its_chain_into_the_next_run(client: Client) -> None:
    handle = await started(client)
    await handle.signal(Order.finish, "again")
    first = client.get_workflow_handle("one", run_id=handle.result_run_id)  # or it may be the next
    async for event in first.fetch_history_events(wait_new_event=True):
        if event.event_type == "WorkflowExecutionContinuedAsNew":
            break
    update = await handle.start_update(
        Order.set_address, "Here", wait_for_stage=WorkflowUpdateStage.COMPLETED
    )
    assert update.workflow_run_id not in (None, handle.result_run_id)
    assert await update.result() == ""


REGION, AMOUNT = SearchAttributeKey.for_keyword("Region"), SearchAttributeKey.for_int("Amount")


@workflow.defn
class Moving:
    @workflow.run
    async def run(self, moved: bool) -> str:
        if not moved:
            workflow.continue_as_new(True, search_attributes=[SearchAttributePair(AMOUNT, 3)])
        return str(workflow.info().typed_search_attributes)


async def test_the_next_run_has_the_search_attributes_that_it_was_given(client: Client) -> None:
    handle = await client.start_workflow(
        Moving.run,
        False,
        id="one",
        task_queue=QUEUE,
        search_attributes=[SearchAttributePair(REGION, "eu"), SearchAttributePair(AMOUNT, 2)],
    )
    wanted = TypedSearchAttributes([SearchAttributePair(AMOUNT, 3)])
    assert await handle.result() == str(wanted)
    described = await client.get_workflow_handle("one").describe()
    assert described.run_id != handle.result_run_id
    assert described.typed_search_attributes == wanted


# --- queries that are not wanted --------------------------------------------------------------------


async def test_a_query_is_not_asked_of_a_run_that_is_not_as_its_caller_wants_it(
    client: Client,
) -> None:
    handle = await started(client)
    get = Order.get_address
    assert await handle.query(get, reject_condition=NOT_OPEN) == ""
    await handle.signal(Order.finish, "return")
    await handle.result()
    assert await handle.query(get, reject_condition=NOT_COMPLETED_CLEANLY) == ""
    assert await handle.query(get, reject_condition=NONE) == ""
    with pytest.raises(WorkflowQueryRejectedError) as rejected:
        await handle.query(get, reject_condition=NOT_OPEN)
    assert rejected.value.status is WorkflowStatus.COMPLETED

    config = client.config()
    config["default_workflow_query_reject_condition"] = NOT_OPEN
    careful = Client(**config).get_workflow_handle("one")
    with pytest.raises(WorkflowQueryRejectedError):
        await careful.query("get_address")
    assert await careful.query("get_address", reject_condition=NONE) == ""

    failing = await started(client, "two")
    await failing.signal(Order.finish, "fail")
    with pytest.raises(WorkflowFailureError):
        await failing.result()
    with pytest.raises(WorkflowQueryRejectedError) as rejected:
        await failing.query("get_address", reject_condition=NOT_COMPLETED_CLEANLY)
    assert rejected.value.status is WorkflowStatus.FAILED
    assert await failing.query("get_address") == ""


# --- what is told ------------------------------------------------------------------------------------


async def test_who_waits_for_a_terminated_run_hears_the_reason_and_the_details(
    client: Client,
) -> None:
    handle = await started(client)
    await handle.terminate("order", 4711, reason="fraud")
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    cause = failed.value.cause
    assert isinstance(cause, TerminatedError)
    assert (cause.message, cause.details) == ("fraud", ("order", 4711))


async def test_a_description_has_the_texts_of_the_start(client: Client) -> None:
    handle = await client.start_workflow(
        Order.run,
        id="one",
        task_queue=QUEUE,
        static_summary="Ada's order",
        static_details="- two books\n- one pen",
    )
    described = await handle.describe()
    assert described.static_summary == "Ada's order"
    assert described.static_details == "- two books\n- one pen"
    plain = await (await started(client, "two")).describe()
    assert (plain.static_summary, plain.static_details) == (None, None)


async def test_a_description_says_when_the_code_begins(client: Client) -> None:
    now = await (await started(client)).describe()
    assert now.execution_time == now.start_time
    handle = await client.start_workflow(
        Order.run, id="two", task_queue=QUEUE, start_delay=timedelta(days=1)
    )
    later = await handle.describe()
    assert later.execution_time is not None
    assert later.start_time is not None
    assert later.execution_time - later.start_time == timedelta(days=1)
