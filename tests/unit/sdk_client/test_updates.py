"""How a client asks for an update: with one id, until it is decided, then only for its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import workflow
from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.options import build_start
from perdure._client.with_start import ClientUpdates
from perdure._failure_info import ApplicationInfo, FailureInfo
from perdure._wire.calls import Target
from perdure._wire.connection import Connection
from perdure._wire.edge import PayloadEdge
from perdure._wire.surroundings import Surroundings
from perdure._wire.updates import UpdateAnswer, UpdateRequest, UpdateService
from perdure.client import (
    RPCError,
    RPCStatusCode,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.common import WorkflowIdConflictPolicy
from perdure.converter import DataConverter
from perdure_api.v1 import workflow_service_pb2 as pb

ADMITTED, ACCEPTED, COMPLETED = WorkflowUpdateStage
RUN_ID = "0199c7d2-1111-7222-8333-444455556666"
RESULT = DataConverter.default.payload_converter.to_payloads([7])
LIMIT = timedelta(seconds=5)
UNAVAILABLE = RPCError("gone for a moment", RPCStatusCode.UNAVAILABLE)
LATE = RPCError("too late", RPCStatusCode.DEADLINE_EXCEEDED)


def answer(stage: WorkflowUpdateStage, failure: FailureInfo | None = None) -> UpdateAnswer:
    done = stage is COMPLETED and failure is None
    return UpdateAnswer(RUN_ID, stage, RESULT if done else [], failure)


@workflow.defn
class Counter:
    @workflow.run
    async def run(self) -> None: ...

    @workflow.update(name="add one")
    def add(self) -> int:
        return 1


class FakeService:
    """Gives its answers one after the other, and remembers what was asked."""

    def __init__(self) -> None:
        self.answers: list[UpdateAnswer | RPCError] = []
        self.asked: list[tuple[Any, ...]] = []

    async def update(
        self, target: Any, request: Any, identity: str, stage: Any, wait_ms: int, timeout_s: float
    ) -> UpdateAnswer:
        return self._next("update", request.update_id, request.name, target.run_id, stage)

    async def update_with_start(
        self, start: Any, request: Any, stage: Any, wait_ms: int, timeout_s: float
    ) -> UpdateAnswer:
        return self._next("with start", request.update_id, start.request_id, stage)

    async def poll(
        self, target: Any, update_id: str, stage: Any, wait_ms: int, timeout_s: float
    ) -> UpdateAnswer:
        return self._next("poll", update_id, target.run_id, stage)

    def _next(self, *asked: Any) -> UpdateAnswer:
        self.asked.append(asked)
        found = self.answers.pop(0)
        if isinstance(found, RPCError):
            raise found
        return found


class Bench(ClientUpdates):
    def __init__(self, core: ClientCore, service: FakeService) -> None:
        self._core = core
        self.service = service
        self.handle: WorkflowHandle[Counter, None] = WorkflowHandle(core, "w")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async def no_sleep(_: float) -> None: ...

    numbers = iter(range(100))
    surroundings = Surroundings(
        monotonic_s=lambda: 0.0,
        sleep=no_sleep,
        random=lambda: 0.5,
        new_uuid=lambda: f"id-{next(numbers)}",
    )
    connection = Connection("127.0.0.1:1")
    core = ClientCore(connection, "default", "me", DataConverter.default, surroundings)
    service = FakeService()
    core.update_service = service  # type: ignore[assignment]  # the fake has the same methods
    yield Bench(core, service)
    await core.close()


async def test_it_is_asked_with_the_same_id_until_it_is_decided_and_then_polled(
    bench: Bench,
) -> None:
    bench.service.answers = [
        answer(ADMITTED),
        UNAVAILABLE,
        answer(ADMITTED),
        answer(ACCEPTED),
        answer(ACCEPTED),
        answer(COMPLETED),
    ]

    assert await bench.handle.execute_update(Counter.add) == 7

    update = ("update", "id-0", "add one", "", COMPLETED)
    poll = ("poll", "id-0", RUN_ID, COMPLETED)
    assert bench.service.asked == [update] * 4 + [poll] * 2


async def test_start_update_returns_at_its_stage(bench: Bench) -> None:
    bench.service.answers = [answer(ACCEPTED), answer(ACCEPTED), answer(COMPLETED)]
    accepted = await bench.handle.start_update(Counter.add, wait_for_stage=ACCEPTED, id="u")
    assert len(bench.service.asked) == 1
    assert (accepted.id, accepted.workflow_id, accepted.workflow_run_id) == ("u", "w", RUN_ID)

    completed = await bench.handle.start_update(Counter.add, wait_for_stage=COMPLETED, id="v")

    assert bench.service.asked[1:] == [
        ("update", "v", "add one", "", COMPLETED),
        ("poll", "v", RUN_ID, COMPLETED),
    ]
    assert await completed.result() == await completed.result() == 7
    with pytest.raises(ValueError, match="ACCEPTED or COMPLETED"):
        await bench.handle.start_update(Counter.add, wait_for_stage=ADMITTED)


async def test_a_refused_update_raises_from_its_result(bench: Bench) -> None:
    failure = FailureInfo(message="no", info=ApplicationInfo(type="Refused"))
    bench.service.answers = [answer(COMPLETED, failure)] * 2

    update = await bench.handle.start_update("anything", 1, wait_for_stage=ACCEPTED)
    assert update.has_failed
    for waiting in (update.result(), bench.handle.execute_update("anything", args=[1])):
        with pytest.raises(WorkflowUpdateFailedError, match="no") as failed:
            await waiting
        assert failed.value.cause.type == "Refused"  # type: ignore[attr-defined]


async def test_a_wait_that_is_over_has_its_own_error(bench: Bench) -> None:
    bench.service.answers = [LATE, LATE]
    with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
        await bench.handle.execute_update(Counter.add, rpc_timeout=LIMIT)
    with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
        await bench.handle.get_update_handle("u").result(rpc_timeout=LIMIT)
    bench.service.answers = [answer(ADMITTED)]
    with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
        await bench.handle.execute_update(Counter.add, rpc_timeout=timedelta())


async def test_other_refusals_pass_as_they_are(bench: Bench) -> None:
    full = RPCError("ten are in flight", RPCStatusCode.RESOURCE_EXHAUSTED)
    bench.service.answers = [full]

    with pytest.raises(RPCError) as refused:
        await bench.handle.execute_update(Counter.add)
    assert refused.value is full


def operation(**options: Any) -> WithStartWorkflowOperation[Any, Any]:
    fields: dict[str, Any] = {"id": "w", "task_queue": "q"}
    return WithStartWorkflowOperation(Counter.run, **(fields | options))


async def test_a_start_goes_with_one_update_and_is_repeated_with_it(bench: Bench) -> None:
    begins = operation(id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING)
    bench.service.answers = [answer(ADMITTED), answer(ACCEPTED), answer(COMPLETED)]
    waits = asyncio.ensure_future(begins.workflow_handle())

    value = await bench.execute_update_with_start_workflow(
        Counter.add, start_workflow_operation=begins
    )

    assert value == 7
    assert (await waits).result_run_id == RUN_ID
    asked = bench.service.asked
    assert asked[0] == asked[1] == ("with start", asked[0][1], asked[0][2], COMPLETED)
    assert asked[2] == ("poll", asked[0][1], RUN_ID, COMPLETED)
    with pytest.raises(RuntimeError, match="one call"):
        await bench.execute_update_with_start_workflow(Counter.add, start_workflow_operation=begins)


async def test_what_the_call_raises_its_handle_raises_too(bench: Bench) -> None:
    begins = operation(id_conflict_policy=WorkflowIdConflictPolicy.FAIL)
    bench.service.answers = [LATE]

    for waiting in (
        bench.start_update_with_start_workflow(
            Counter.add, wait_for_stage=ACCEPTED, start_workflow_operation=begins
        ),
        begins.workflow_handle(),
    ):
        with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
            await waiting


def test_a_start_that_cannot_go_with_an_update() -> None:
    with pytest.raises(ValueError, match="id_conflict_policy is required"):
        operation()
    with pytest.raises(ValueError, match="not with both"):
        operation(id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING, start_signal="paid")


def test_a_dynamic_update_must_be_named() -> None:
    @workflow.defn
    class Open:
        @workflow.run
        async def run(self) -> None: ...

        @workflow.update(dynamic=True)
        def any(self, name: str, args: Any) -> None: ...

    handle: Any = WorkflowHandle(SimpleNamespace(namespace="default"), "w")  # type: ignore[arg-type]  # asks nobody
    with pytest.raises(TypeError, match="give the name"):
        handle.get_update_handle_for(Open.any, "u")


async def test_an_encrypted_update_is_sent_again_with_the_same_bytes() -> None:
    """Invariant: once per request id. Other bytes under one id are refused by the engine, and what is
    encrypted twice is other bytes."""
    sent: list[bytes] = []

    class Stub:
        async def UpdateWorkflow(self, message: Any, **_: Any) -> Any:
            sent.append(message.SerializeToString(deterministic=True))
            return pb.UpdateWorkflowResponse(run_id=RUN_ID, stage=message.wait_stage)

        UpdateWithStartWorkflow = UpdateWorkflow

    connection = Connection("localhost:1")
    codec = EncryptionCodec(KeyRing("k", {"k": b"k" * 32}))
    service = UpdateService(connection, PayloadEdge(codec))
    service._stub = Stub()  # type: ignore[assignment]
    start = build_start(
        {"id": "w", "task_queue": "q"},
        workflow_type="Counter",
        args=["secret"],
        namespace="default",
        identity="me",
        request_id="r",
        converter=DataConverter.default.payload_converter,
    )

    for to in (Target("default", "w", ""), start):
        request = UpdateRequest("u-1", "add one", RESULT)
        for _ in range(2):
            if isinstance(to, Target):
                await service.update(to, request, "me", ACCEPTED, 5, 1.0)
            else:
                await service.update_with_start(to, request, ACCEPTED, 5, 1.0)
        first, second = sent[-2:]
        assert first == second
        assert b"secret" not in first
    await connection.close()
