"""Update verbs: checked, sent to the right shard, and answered in time with the stage that is reached."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, FakeHistory, Room

from perdure_engine.core import commands, limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import (
    PollUpdate,
    StartUpdate,
    StartWorkflow,
    UpdateStage,
    UpdateWorkflow,
)
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.frontend.commands import check_command
from perdure_engine.frontend.handlers.poll_update import poll_update
from perdure_engine.frontend.handlers.update_with_start_workflow import (
    update_with_start_workflow,
)
from perdure_engine.frontend.handlers.update_workflow import update_workflow

TARGET: dict[str, Any] = {"namespace_id": NAMESPACE_ID, "workflow_id": "order-1", "run_id": b""}
UPDATE = UpdateWorkflow(
    **TARGET,
    update_id="u-1",
    update_name="set",
    body_hash=b"h" * 8,
    wait_stage=UpdateStage.COMPLETED,
)
POLL = PollUpdate(**TARGET, update_id="u-1", wait_stage=UpdateStage.COMPLETED)
START = StartWorkflow(
    namespace_id=NAMESPACE_ID,
    workflow_id="order-1",
    run_id=RUN_ID,
    request_id=RUN_ID,
    body_hash=b"h" * 8,
    workflow_type="Order",
    task_queue="orders",
    update=StartUpdate("u-1", "set", b"", b"", b"h" * 8, UpdateStage.COMPLETED),
)
DONE = UpdateStatus(RUN_ID, "u-1", UpdateStage.COMPLETED, b"done")
ADMITTED = UpdateStatus(RUN_ID, "u-1", UpdateStage.ADMITTED)
MEGABYTES = bytes(limits.PAYLOAD_BYTES_MAX + 1)

VERBS: list[tuple[Any, Any]] = [
    (update_workflow, UPDATE),
    (poll_update, POLL),
    (update_with_start_workflow, START),
]


def changed(intent: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(intent, **changes)


def with_update(**changes: Any) -> StartWorkflow:
    start: StartWorkflow = changed(START, update=changed(START.update, **changes))
    return start


def stage_of(intent: Any) -> UpdateStage:
    asked = intent.update if isinstance(intent, StartWorkflow) else intent
    stage: UpdateStage = asked.wait_stage
    return stage


@pytest.mark.parametrize(("verb", "intent"), VERBS)
async def test_an_answer_in_time_is_the_answer(verb: Any, intent: Any) -> None:
    room = Room()
    room.history.answer = lambda _: DONE

    assert await verb(room.frontend, intent, 1_000) is DONE
    shard_id = shard_of(NAMESPACE_ID, "order-1", room.history.number_of_shards)
    assert room.history.submitted == [(shard_id, intent)]


@pytest.mark.parametrize(("verb", "intent"), VERBS)
async def test_when_the_time_is_up_the_stage_is_told(verb: Any, intent: Any) -> None:
    """What is asked then is the same again: it joins the first, or is told why that was not taken."""
    room = Room()
    room.history.answer = lambda asked: (
        ADMITTED if stage_of(asked) is UpdateStage.ADMITTED else FakeHistory.PENDING
    )

    assert await verb(room.frontend, intent, 1) is ADMITTED
    waited, again = (asked for _, asked in room.history.submitted)
    assert waited is intent
    assert type(again) is type(intent)
    assert room.history.futures[0].cancelled()


async def refused(verb: Awaitable[Any]) -> Rejected:
    with pytest.raises(Rejected) as found:
        await verb
    return found.value


@pytest.mark.parametrize(
    ("verb", "intent", "field"),
    [
        (update_workflow, changed(UPDATE, workflow_id=""), "workflow_id"),
        (update_workflow, changed(UPDATE, update_id=""), "update_id"),
        (update_workflow, changed(UPDATE, update_id="x" * 501), "update_id"),
        (update_workflow, changed(UPDATE, update_name="\0"), "update_name"),
        (update_workflow, changed(UPDATE, update_name="__internal"), "update_name"),
        (update_workflow, changed(UPDATE, input=MEGABYTES), "args"),
        (update_workflow, changed(UPDATE, header=MEGABYTES), "header"),
        (update_workflow, changed(UPDATE, identity="\x1b"), "identity"),
        (poll_update, changed(POLL, workflow_id=""), "workflow_id"),
        (poll_update, changed(POLL, update_id=""), "update_id"),
        (update_with_start_workflow, changed(START, workflow_id=""), "start.workflow_id"),
        (update_with_start_workflow, changed(START, start_delay_ms=1), "start.start_delay_ms"),
        (update_with_start_workflow, with_update(update_id=""), "update_id"),
        (update_with_start_workflow, with_update(update_name=""), "update_name"),
        (update_with_start_workflow, with_update(input=MEGABYTES), "args"),
    ],
)
async def test_bad_input_stops_at_the_door(verb: Any, intent: Any, field: str) -> None:
    room = Room()

    refusal = await refused(verb(room.frontend, intent, 1_000))

    assert (refusal.code, refusal.field) == (Code.INVALID_ARGUMENT, field)
    assert not room.history.touched


@pytest.mark.parametrize(("verb", "intent"), VERBS)
async def test_a_negative_time_is_refused_before_anything_is_asked(verb: Any, intent: Any) -> None:
    room = Room()

    assert (await refused(verb(room.frontend, intent, -1))).field == "timeout_ms"
    assert not room.history.touched


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (commands.AcceptUpdate(""), "accept_update.update_id"),
        (
            commands.RejectUpdate("", Failure(FailureKind.APPLICATION, "no")),
            "reject_update.update_id",
        ),
        (commands.CompleteUpdate("", b"", None), "complete_update.update_id"),
        (commands.CompleteUpdate("u", MEGABYTES, None), "complete_update.result"),
    ],
)
def test_commands_of_updates_are_checked(command: commands.Command, field: str) -> None:
    with pytest.raises(Rejected) as found:
        check_command(3, command, lambda _: "")

    assert found.value.field == f"commands[3].{field}"
