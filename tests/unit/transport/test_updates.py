"""Updates over the wire, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, Room
from tests.unit.transport.test_handed import poll_response, workflow_task
from tests.unit.transport.test_intents import REQUEST_ID

from perdure_api.v1 import common_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import commands, limits
from perdure_engine.core.errors import Rejected
from perdure_engine.core.events import WorkflowExecutionUpdateAdmitted
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import IdConflictPolicy, PollUpdate, UpdateStage, UpdateWorkflow
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.transport.grpc.convert import intents, replies
from perdure_engine.transport.grpc.convert.commands import commands_of

FIRST_RUN_ID = b"f" * 16
FAILURE = Failure(FailureKind.APPLICATION, "no", type="Refused")


def request(**changes: Any) -> pb.UpdateWorkflowRequest:
    fields: dict[str, Any] = {
        "namespace": "default",
        "workflow_id": "order-1",
        "run_id": uuid_text(RUN_ID),
        "update_id": "u-1",
        "update_name": "set",
        "args": b"a",
        "header": b"h",
        "identity": "me",
        "wait_stage": pb.UPDATE_STAGE_ACCEPTED,
        "timeout_ms": 5,
        "first_run_id": uuid_text(FIRST_RUN_ID),
    }
    return pb.UpdateWorkflowRequest(**(fields | changes))


def test_an_update_with_every_field() -> None:
    intent = intents.update_workflow(request(), NAMESPACE_ID)

    assert intent == UpdateWorkflow(
        namespace_id=NAMESPACE_ID,
        workflow_id="order-1",
        run_id=RUN_ID,
        update_id="u-1",
        update_name="set",
        body_hash=intent.body_hash,
        input=b"a",
        header=b"h",
        identity="me",
        wait_stage=UpdateStage.ACCEPTED,
        first_run_id=FIRST_RUN_ID,
    )


def test_what_all_callers_of_an_id_have_in_common_is_name_and_arguments() -> None:
    def hash_of(**changes: Any) -> bytes:
        return intents.update_workflow(request(**changes), NAMESPACE_ID).body_hash

    others = {"identity": "you", "header": b"", "timeout_ms": 9, "wait_stage": 1, "run_id": ""}
    others |= {"first_run_id": ""}
    assert hash_of() == hash_of(**others)
    assert len({hash_of(), hash_of(args=b"b"), hash_of(update_name="get")}) == 3
    assert hash_of(update_name="ab", args=b"c") != hash_of(update_name="a", args=b"bc")


def test_a_poll_and_its_stages() -> None:
    message = pb.PollUpdateRequest(workflow_id="order-1", update_id="u-1")

    assert intents.poll_update(message, NAMESPACE_ID) == PollUpdate(
        namespace_id=NAMESPACE_ID,
        workflow_id="order-1",
        run_id=b"",
        update_id="u-1",
        wait_stage=UpdateStage.ADMITTED,
    )
    with pytest.raises(Rejected, match="wait_stage"):
        intents.poll_update(pb.PollUpdateRequest(wait_stage=9), NAMESPACE_ID)  # type: ignore[arg-type]  # of a newer client


def with_start(**changes: Any) -> pb.UpdateWithStartWorkflowRequest:
    start = pb.StartWorkflowRequest(
        workflow_id="order-1", request_id=REQUEST_ID, id_conflict_policy=2
    )
    return pb.UpdateWithStartWorkflowRequest(
        **({"start": start, "update_id": "u-1", "update_name": "set", "args": b"a"} | changes)
    )


def test_update_with_start_has_both_halves() -> None:
    intent = intents.update_with_start_workflow(with_start(), NAMESPACE_ID)
    later = intents.update_with_start_workflow(with_start(wait_stage=3), NAMESPACE_ID)

    assert intent.id_conflict_policy is IdConflictPolicy.USE_EXISTING
    assert intent.update is not None
    assert later.update is not None
    assert (intent.update.update_id, intent.update.input) == ("u-1", b"a")
    assert later.update.wait_stage is UpdateStage.COMPLETED
    assert later.body_hash == intent.body_hash, "a repeat may wait for another stage"
    assert intent.update.body_hash == intents.update_workflow(request(), NAMESPACE_ID).body_hash


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id_conflict_policy": 0}, "start.id_conflict_policy"),
        ({"request_id": ""}, "start.request_id"),
        ({"run_id": "x"}, "start.run_id"),
    ],
)
def test_a_start_that_cannot_go_with_an_update(changes: dict[str, Any], field: str) -> None:
    fields = {"workflow_id": "w", "request_id": REQUEST_ID, "id_conflict_policy": 2} | changes
    with pytest.raises(Rejected) as refused:
        intents.update_with_start_workflow(
            with_start(start=pb.StartWorkflowRequest(**fields)), NAMESPACE_ID
        )
    assert refused.value.field == field


def test_a_status_says_stage_and_outcome() -> None:
    waits = replies.updated(UpdateStatus(RUN_ID, "u-1", UpdateStage.ACCEPTED))
    done = replies.polled_update(UpdateStatus(RUN_ID, "u-1", UpdateStage.COMPLETED, b""))
    failed = replies.updated_with_start(
        UpdateStatus(RUN_ID, "u-1", UpdateStage.COMPLETED, failure=FAILURE, started=True)
    )

    assert (waits.run_id, waits.stage) == (uuid_text(RUN_ID), pb.UPDATE_STAGE_ACCEPTED)
    assert not waits.HasField("outcome")
    assert done.outcome.WhichOneof("value") == "result", "also when there is nothing in it"
    assert failed.outcome.failure.message == "no"
    assert failed.started


def test_commands_of_updates() -> None:
    failure = common_pb2.Failure(message="no", application={"type": "Refused"})  # type: ignore[arg-type]  # a dict will do
    found = commands_of(
        [
            worker_pb.Command(accept_update={"update_id": "u"}),  # type: ignore[arg-type]
            worker_pb.Command(reject_update={"update_id": "u", "failure": failure}),  # type: ignore[arg-type]
            worker_pb.Command(complete_update={"update_id": "u", "result": b"r"}),  # type: ignore[arg-type]
            worker_pb.Command(complete_update={"update_id": "u", "failure": failure}),  # type: ignore[arg-type]
        ]
    )

    rejected = found[1]
    assert isinstance(rejected, commands.RejectUpdate)
    assert (rejected.failure.message, rejected.failure.type) == ("no", "Refused")
    assert found[0] == commands.AcceptUpdate("u")
    assert found[2] == commands.CompleteUpdate("u", b"r", None)
    assert found[3] == commands.CompleteUpdate("u", b"", rejected.failure)


def admitted(update_id: str, size: int = 3) -> WorkflowExecutionUpdateAdmitted:
    return WorkflowExecutionUpdateAdmitted(0, 9, update_id, "set", bytes(size), b"h", "me", b"hash")


def test_updates_travel_with_their_task() -> None:
    answer = PollAnswer([workflow_task(updates=[admitted("u-1"), admitted("u-2")])], [])

    (task,) = poll_response(Room().frontend, answer).workflow_tasks

    assert [update.update_id for update in task.updates] == ["u-1", "u-2"]
    first = task.updates[0]
    assert (first.update_name, first.args, first.header, first.identity) == (
        "set",
        bytes(3),
        b"h",
        "me",
    )


def test_large_updates_leave_no_room_for_the_next_task() -> None:
    large = admitted("u-1", limits.PAYLOAD_BYTES_MAX)
    answer = PollAnswer([workflow_task(updates=[large]), workflow_task(updates=[large])], [])
    room = Room()

    response = poll_response(room.frontend, answer)

    assert len(response.workflow_tasks) == len(room.history.undone) == 1
    assert response.ByteSize() < limits.REQUEST_BYTES_MAX
