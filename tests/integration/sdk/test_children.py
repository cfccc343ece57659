"""Children, external signals and cancels: the SDK against the real engine, and every history replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.sdk.family import (
    ALL,
    Careless,
    Child,
    Crowd,
    Hasty,
    Leaving,
    Limited,
    Parent,
    Relative,
    Talking,
    Undoing,
)

from perdure.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
)
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.common import WorkflowIdReusePolicy, WorkflowStatus
from perdure.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes
from perdure.errors import (
    ApplicationError,
    ChildWorkflowError,
    RetryState,
    RPCError,
    RPCStatusCode,
    TerminatedError,
)
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer, Worker
from perdure.workflow import ChildWorkflowCancellationType as Type
from perdure.workflow import ParentClosePolicy

QUEUE = "q"
PATIENCE = timedelta(seconds=30)  # of real time, for what is due in milliseconds


@pytest.fixture(params=[1000, 0], ids=["cached", "replayed at each step"])
async def env(request: pytest.FixtureRequest) -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue=QUEUE,
            workflows=ALL,
            max_cached_workflows=request.param,
            graceful_shutdown_timeout=timedelta(),
        )
        async with worker:
            yield env


@pytest.fixture
def client(env: WorkflowEnvironment) -> Client:
    return env.client


async def begin(client: Client, run: Any, *args: Any, id: str = "p") -> WorkflowHandle[Any, Any]:
    handle: WorkflowHandle[Any, Any] = await client.start_workflow(
        run, args=args, id=id, task_queue=QUEUE
    )
    return handle


async def replays(handle: WorkflowHandle[Any, Any]) -> None:
    await Replayer(workflows=ALL).replay_workflow(await handle.fetch_history())


async def outcome(client: Client, run: Any, *args: Any, id: str = "p") -> Any:
    """Of a workflow that ends by itself; its history replays."""
    handle = await begin(client, run, *args, id=id)
    result = await handle.result(rpc_timeout=PATIENCE)
    await replays(handle)
    return result


async def types(handle: WorkflowHandle[Any, Any]) -> list[str]:
    return [event.event_type async for event in handle.fetch_history_events()]


async def child_of(client: Client, parent: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
    """When the parent knows that its child has started."""
    async for event in parent.fetch_history_events(wait_new_event=True, rpc_timeout=PATIENCE):
        if event.event_type == "ChildWorkflowExecutionStarted":
            return client.get_workflow_handle("c")
    raise AssertionError("it ended without a child")


async def status(handle: WorkflowHandle[Any, Any]) -> WorkflowStatus | None:
    return (await handle.describe()).status


async def ended(client: Client, id: str) -> WorkflowStatus | None:
    """How a workflow has ended, waited for."""
    handle = client.get_workflow_handle(id)
    with suppress(WorkflowFailureError):
        await handle.result(rpc_timeout=PATIENCE)
    return await status(handle)


# --- what a child comes to ------------------------------------------------------------------------


async def test_a_childs_result_is_its_parents_to_use(client: Client) -> None:
    assert await outcome(client, Parent.run, "work", {}) == "work done"


async def test_a_child_is_a_workflow_like_any_other(client: Client) -> None:
    parent = await begin(client, Parent.run, "wait", {"id": "c"})
    child = await child_of(client, parent)
    described = await child.describe()
    assert (described.workflow_type, described.task_queue) == ("Child", QUEUE)
    await child.signal(Child.tell, "from a client")
    assert await parent.result(rpc_timeout=PATIENCE) == "from a client"
    assert await child.result() == "from a client"
    await replays(parent)
    await replays(child)


async def test_what_a_child_failed_with_reaches_its_parent(client: Client) -> None:
    heard = await outcome(client, Parent.run, "fail", {"id": "c"})
    assert heard == ["ApplicationError", "Empty: no paper", "c", True]


async def test_and_through_its_parent_the_client(client: Client) -> None:
    handle = await begin(client, Careless.run)
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result(rpc_timeout=PATIENCE)
    error = caught.value.cause
    assert isinstance(error, ChildWorkflowError)
    assert (error.workflow_id, error.workflow_type, error.namespace) == ("c", "Child", "default")
    assert error.run_id == (await client.get_workflow_handle("c").describe()).run_id
    assert error.retry_state is RetryState.RETRY_POLICY_NOT_SET
    assert 0 < error.initiated_event_id < error.started_event_id
    cause = error.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.message, cause.type, list(cause.details)) == ("no paper", "Empty", [7])
    await replays(handle)


async def test_a_child_that_takes_too_long(client: Client) -> None:
    heard = await outcome(client, Parent.run, "wait", {"id": "c", "execution_timeout": 3600})
    assert heard == ["TimeoutError", "Timed out", "c", True]


async def test_a_child_that_is_terminated(client: Client) -> None:
    parent = await begin(client, Parent.run, "wait", {"id": "c"})
    await (await child_of(client, parent)).terminate(reason="enough")
    heard = await parent.result(rpc_timeout=PATIENCE)
    assert heard == [TerminatedError.__name__, "Terminated", "c", True]
    await replays(parent)


async def test_a_child_that_a_client_cancels(client: Client) -> None:
    parent = await begin(client, Parent.run, "wait", {"id": "c"})
    await (await child_of(client, parent)).cancel()
    heard = await parent.result(rpc_timeout=PATIENCE)
    assert heard == ["CancelledError", "Cancelled", "c", True]
    await replays(parent)


async def test_attempts_and_runs_of_a_chain_are_one_child(client: Client) -> None:
    again = await outcome(client, Parent.run, "fail twice", {"id": "c", "retry_policy": 5})
    assert again == "attempt 3"
    went_on = await outcome(client, Parent.run, "go on", {"id": "d"}, id="p2")
    assert went_on == "go on done"
    for id in ("p", "p2"):
        kinds = await types(client.get_workflow_handle(id))
        assert kinds.count("ChildWorkflowExecutionStarted") == 1
        assert kinds.count("ChildWorkflowExecutionCompleted") == 1


# --- ids ------------------------------------------------------------------------------------------


async def test_an_id_of_an_open_workflow_is_taken(client: Client) -> None:
    other = await begin(client, Child.run, "wait", id="c")
    heard = await outcome(client, Parent.run, "x", {"id": "c"})
    assert heard == ["WorkflowAlreadyStartedError", "c"]
    assert await status(other) is WorkflowStatus.RUNNING  # and nothing has happened to it


async def test_an_id_of_a_closed_one_is_taken_if_the_parent_says_so(client: Client) -> None:
    assert await outcome(client, Parent.run, "one", {"id": "c"}) == "one done"
    reject = {"id": "c", "id_reuse_policy": int(WorkflowIdReusePolicy.REJECT_DUPLICATE)}
    heard = await outcome(client, Parent.run, "two", reject, id="p2")
    assert heard == ["WorkflowAlreadyStartedError", "c"]
    assert await outcome(client, Parent.run, "three", {"id": "c"}, id="p3") == "three done"


async def test_everybody_knows_who_is_above(client: Client) -> None:
    known = await outcome(client, Relative.run, 2, id="r")
    parent_run = (await client.get_workflow_handle("r").describe()).run_id
    middle_run = (await client.get_workflow_handle("r/child").describe()).run_id
    assert known == [
        None,
        ["r", parent_run, "default", "r"],
        ["r/child", middle_run, "default", "r"],
    ]


# --- cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "heard", "child_ends"),
    [
        (Type.WAIT_CANCELLATION_COMPLETED, "CancelledError", WorkflowStatus.CANCELED),
        (Type.WAIT_CANCELLATION_REQUESTED, "CancelledError", WorkflowStatus.CANCELED),
        (Type.TRY_CANCEL, "CancelledError", WorkflowStatus.CANCELED),
        (Type.ABANDON, "CancelledError", WorkflowStatus.RUNNING),
    ],
)
async def test_a_cancelled_parent_and_its_child(
    client: Client, how: Type, heard: str, child_ends: WorkflowStatus
) -> None:
    options = {
        "id": "c",
        "cancellation_type": int(how),
        "parent_close_policy": int(ParentClosePolicy.ABANDON),
    }
    parent = await begin(client, Parent.run, "wait", options)
    child = await child_of(client, parent)
    await parent.cancel(reason="enough")

    result = await parent.result(rpc_timeout=PATIENCE)

    assert result[0] == heard
    if how is Type.WAIT_CANCELLATION_COMPLETED:
        assert await status(child) is WorkflowStatus.CANCELED  # it had ended when we heard of it
    if child_ends is WorkflowStatus.RUNNING:
        assert "WorkflowExecutionCancelRequested" not in await types(child)
        assert await status(child) is child_ends
    else:
        assert await ended(client, "c") is child_ends
    await replays(parent)
    await replays(child)


async def test_the_reason_reaches_the_child_which_may_stay(client: Client) -> None:
    parent = await begin(client, Parent.run, "stubborn", {"id": "c"})
    await child_of(client, parent)
    await parent.cancel(reason="enough")
    assert await parent.result(rpc_timeout=PATIENCE) == "stayed: enough"
    await replays(parent)


async def test_a_child_cleans_up_while_its_parent_waits(client: Client) -> None:
    parent = await begin(client, Parent.run, "clean up", {"id": "c"})
    child = await child_of(client, parent)
    await parent.cancel()
    assert (await parent.result(rpc_timeout=PATIENCE))[0] == "CancelledError"
    assert await status(child) is WorkflowStatus.CANCELED
    assert "TimerFired" in await types(child)
    await replays(parent)


@pytest.mark.parametrize("when", ["never sent", "on its way", "started"])
async def test_a_parent_that_changes_its_mind(client: Client, when: str) -> None:
    assert await outcome(client, Hasty.run, when) == "CancelledError"
    if when == "never sent":
        with pytest.raises(RPCError) as caught:
            await client.get_workflow_handle("c").describe()
        assert caught.value.status is RPCStatusCode.NOT_FOUND
    if when == "started":
        assert await ended(client, "c") is WorkflowStatus.CANCELED


async def test_a_time_limit_around_a_child(client: Client) -> None:
    assert await outcome(client, Limited.run) == "took too long"
    assert await ended(client, "c") is WorkflowStatus.CANCELED


# --- when the parent closes -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "fail", "go on"])
@pytest.mark.parametrize(
    ("policy", "child_ends"),
    [
        (ParentClosePolicy.TERMINATE, WorkflowStatus.TERMINATED),
        (ParentClosePolicy.UNSPECIFIED, WorkflowStatus.TERMINATED),
        (ParentClosePolicy.REQUEST_CANCEL, WorkflowStatus.CANCELED),
        (ParentClosePolicy.ABANDON, WorkflowStatus.RUNNING),
    ],
)
async def test_parent_close_policy(
    client: Client, policy: ParentClosePolicy, child_ends: WorkflowStatus, how: str
) -> None:
    parent = await begin(client, Leaving.run, int(policy), how)
    try:
        await parent.result(rpc_timeout=PATIENCE)
    except WorkflowFailureError:
        assert how == "fail"
    if child_ends is WorkflowStatus.RUNNING:
        child = client.get_workflow_handle("c")
        assert await status(child) is WorkflowStatus.RUNNING
        await child.signal(Child.tell, "on my own")
        assert await child.result(rpc_timeout=PATIENCE) == "on my own"
    else:
        assert await ended(client, "c") is child_ends


async def test_a_terminated_parent_takes_its_child_along(client: Client) -> None:
    parent = await begin(client, Parent.run, "wait", {"id": "c"})
    await child_of(client, parent)
    await parent.terminate()
    assert await ended(client, "c") is WorkflowStatus.TERMINATED


# --- signals and cancels to others ----------------------------------------------------------------


async def test_a_child_is_signaled(client: Client) -> None:
    assert await outcome(client, Talking.run, "child") == "hello"


async def test_a_signal_reaches_whichever_run_of_the_child_is_current(client: Client) -> None:
    assert await outcome(client, Talking.run, "child_that_went_on") == "to the next run"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("child_that_has_closed", "Unable to signal external workflow because it was not found"),
        ("other", "Unable to signal external workflow because it was not found"),
        ("cancel_other", "Unable to cancel external workflow because not found"),
    ],
)
async def test_who_is_not_there_cannot_be_told(client: Client, how: str, message: str) -> None:
    heard = await outcome(client, Talking.run, how)
    assert heard == ["ExternalWorkflowExecutionNotFound", message]


async def test_another_workflow_is_signaled_in_order(client: Client) -> None:
    other = await begin(client, Child.run, "stubborn", id="o")
    assert await outcome(client, Talking.run, "other") == "sent"
    assert await other.query(Child.told) == ["first", "second"]
    await replays(other)


async def test_many_signals_at_once_arrive_in_order_and_once(client: Client) -> None:
    other = await begin(client, Child.run, "stubborn", id="o")
    assert await outcome(client, Talking.run, "many") == "sent"
    assert await other.query(Child.told) == [str(number) for number in range(30)]


async def test_another_workflow_is_cancelled(client: Client) -> None:
    other = await begin(client, Child.run, "stubborn", id="o")
    assert await outcome(client, Talking.run, "cancel_other") == "asked"
    assert await other.result(rpc_timeout=PATIENCE) == "stayed: I say so"
    await replays(other)


# --- many -----------------------------------------------------------------------------------------


async def test_a_crowd_of_children(client: Client) -> None:
    assert await outcome(client, Crowd.run, 40) == [36, [9, 19, 29, 39]]


async def test_a_child_undoes_what_another_did(client: Client) -> None:
    assert await outcome(client, Undoing.run) == "do failed"
    assert await client.get_workflow_handle("undo").result() == "undo done"


async def test_values_travel_encrypted_between_parent_child_and_others() -> None:
    """The engine copies them from one history into the other, and reads none."""
    converter = DataConverter(
        payload_codec=EncryptionCodec(KeyRing("k1", {"k1": b"1" * 32})),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
    async with await WorkflowEnvironment.start_time_skipping(data_converter=converter) as env:
        client, seen = env.client, ""
        async with Worker(client, task_queue=QUEUE, workflows=ALL):
            secret = {"id": "c", "memo": {"note": "4111"}, "static_summary": "4111"}
            assert await outcome_of(client, Parent.run, "4111", secret) == "4111 done"
            assert (await outcome_of(client, Parent.run, "fail", {"id": "d"}, id="p2"))[1] == (
                "Empty: no paper"
            )
            talking = await outcome_of(client, Talking.run, "child", id="p3")
            assert talking == "hello"
        for id in ("p", "c", "p2", "d", "p3"):
            async for event in client.get_workflow_handle(id).fetch_history_events():
                seen += f"{event.event_type} {event.attributes}"
    assert "StartChildWorkflowExecutionInitiated" in seen
    assert "binary/encrypted" in seen
    for word in ("4111", "no paper", "hello"):
        assert word not in seen


async def outcome_of(client: Client, run: Any, *args: Any, id: str = "p") -> Any:
    handle = await begin(client, run, *args, id=id)
    return await handle.result(rpc_timeout=PATIENCE)


async def test_on_postgresql_in_real_time() -> None:
    """The same over a real database: a child that goes on anew, one that is cancelled, one that fails; signals."""
    async with await WorkflowEnvironment.start_local() as env:
        client = env.client
        async with Worker(client, task_queue=QUEUE, workflows=ALL):
            assert await outcome(client, Parent.run, "go on", {"id": "d"}) == "go on done"
            parent = await begin(client, Parent.run, "wait", {"id": "c"}, id="p2")
            child = await child_of(client, parent)
            await parent.cancel()
            assert (await parent.result(rpc_timeout=PATIENCE))[0] == "CancelledError"
            assert await status(child) is WorkflowStatus.CANCELED
            await replays(parent)
            error = await begin(client, Careless.run, id="p3")
            with pytest.raises(WorkflowFailureError) as caught:
                await error.result(rpc_timeout=PATIENCE)
            assert isinstance(caught.value.cause, ChildWorkflowError)
            other = await begin(client, Child.run, "stubborn", id="o")
            assert await outcome(client, Talking.run, "other", id="p4") == "sent"
            assert await other.query(Child.told) == ["first", "second"]
