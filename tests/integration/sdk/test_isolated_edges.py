"""Tasks that run alone, where they meet codecs, interceptors, refusals, and starts that fail."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.integration.sdk import alone_code as code
from tests.integration.sdk.fake_engine import FakeEngine
from tests.integration.sdk.fake_faults import status

from perdure import activity
from perdure.client import Client, WorkflowFailureError
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes
from perdure.errors import ApplicationError
from perdure.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    SurgicalPool,
    Worker,
)
from perdure_api.v1 import event_pb2

QUEUE = "queue"
KEYS = KeyRing("k1", {"k1": b"1" * 32})
ENCRYPTED = DataConverter(
    payload_codec=EncryptionCodec(KEYS),
    failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
)
PAUSED = 3


@pytest.fixture(autouse=True)
def crashed_twice(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.runs.attempts_have_crashed = 2
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # "spawn" imports the code by its name


def worker(client: Client, *activities: Callable[..., Any], **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[code.CallOne],
        activities=[*(activities or code.ACTIVITIES)],
        **{"graceful_shutdown_timeout": timedelta(), **options},
    )


async def run(client: Client, name: str, arg: object = None) -> Any:
    return await client.execute_workflow("CallOne", args=[name, arg], id=name, task_queue=QUEUE)


class Marking(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return Marked(next)


class Marked(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return [os.getpid(), await super().execute_activity(input)]


# --- codecs ---------------------------------------------------------------------------------------


async def test_codecs_work_in_the_worker(engine: FakeEngine) -> None:
    """The process gets plain values and gives plain ones; nothing leaves the worker in clear."""
    async with (
        await Client.connect(engine.address, data_converter=ENCRYPTED) as client,
        worker(client),
    ):
        assert await run(client, "die", "a secret") == "a secret"
        with pytest.raises(WorkflowFailureError) as caught:
            await run(client, "fail", "a secret")
        assert isinstance(caught.value.cause.__cause__, ApplicationError)
        assert caught.value.cause.__cause__.message.startswith("a secret in ")
    said = str(engine.requests["CompleteTasks"])
    assert "a secret" not in said
    assert "so far" not in said  # progress, too
    assert not engine.completions("task_crash")


async def test_progress_and_checkpoints_pass_the_codec(engine: FakeEngine, tmp_path: Path) -> None:
    place = tmp_path / "place"
    os.mkfifo(place)
    async with (
        await Client.connect(engine.address, data_converter=ENCRYPTED) as client,
        worker(client),
    ):
        handle = await client.start_workflow(
            "CallOne", args=["report", str(place)], id="report", task_queue=QUEUE
        )
        await asyncio.to_thread(place.read_text)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = PAUSED
        await handle.result()
    (saved,) = engine.requests["HeartbeatActivity"]
    assert b"encrypted" in saved.details
    assert b"saved" not in saved.details


async def test_a_report_says_nothing_where_failures_are_hidden(engine: FakeEngine) -> None:
    async with (
        await Client.connect(engine.address, data_converter=ENCRYPTED) as client,
        worker(client, surgical=None),
    ):
        await client.start_workflow("CallOne", args=["die", "SIGKILL"], id="w", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.completions("task_crash")))
    (crash,) = engine.completions("task_crash")
    assert crash.task_crash.message == "killed by signal 9 (SIGKILL)"
    assert not crash.task_crash.report


@pytest.mark.parametrize("crashes", [2, 3], ids=["normal pool", "surgical pool"])
async def test_what_cannot_be_decoded_fails(engine: FakeEngine, crashes: int) -> None:
    """Of an activity and of a workflow task, in either pool; and its place is free again."""
    engine.runs.attempts_have_crashed = crashes
    engine.runs.workflow_tasks_have_crashed = crashes
    async with await Client.connect(engine.address, data_converter=ENCRYPTED) as client:
        await client.start_workflow("CallOne", args=["die", "x"], id="w", task_queue=QUEUE)
    other = KeyRing("k2", {"k2": b"2" * 32})
    stranger = DataConverter(payload_codec=EncryptionCodec(other))
    async with (
        await Client.connect(engine.address, data_converter=stranger) as client,
        worker(client),
    ):
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
        assert await run(client, "die", "mine") == "mine"
    failed = engine.completions("workflow_task_failure")[0].workflow_task_failure
    assert failed.cause == event_pb2.WORKFLOW_TASK_FAILED_CAUSE_PAYLOAD_DECODE
    assert not engine.completions("task_crash")


# --- interceptors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("crashes", [2, 3], ids=["normal pool", "surgical pool"])
async def test_interceptors_run_where_the_task_runs(
    engine: FakeEngine, client: Client, crashes: int
) -> None:
    engine.runs.attempts_have_crashed = crashes
    async with worker(client, interceptors=[Marking()]):
        around, found = await run(client, "where_async")
    assert around == found["pid"] != os.getpid()


# --- what the engine does not take ----------------------------------------------------------------


async def test_a_result_that_is_too_large_is_a_failure(engine: FakeEngine, client: Client) -> None:
    @activity.defn
    async def huge(unused: object) -> bytes:
        return b"x" * 5_000_000

    async with worker(client, huge):
        with pytest.raises(WorkflowFailureError) as caught:
            await run(client, "huge")
    assert "PayloadTooLargeError" in repr(caught.value.cause.__cause__)
    assert not engine.completions("task_crash")


async def test_a_result_that_the_engine_refuses_is_a_failure(
    engine: FakeEngine, client: Client
) -> None:
    """Its process is still there to say so."""
    refusal = status(grpc.StatusCode.INVALID_ARGUMENT, "not like this")
    engine.refused_outcomes["activity_success"] = refusal
    async with worker(client):
        with pytest.raises(WorkflowFailureError) as caught:
            await run(client, "die", "x")
    assert "not like this" in str(caught.value.cause.__cause__)
    assert not engine.completions("task_crash")


# --- starts that fail -----------------------------------------------------------------------------


async def test_a_poisoned_task_that_cannot_run_alone_does_not_run(
    engine: FakeEngine,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is held no longer: the engine hands it out again, and counts nothing."""
    monkeypatch.setattr("perdure._worker.isolation.ward._NOT_STARTED_PAUSE_S", 0.0)
    engine.runs.attempts_have_crashed = 3

    @activity.defn
    async def closure(unused: object) -> None:
        raise AssertionError(client)

    def free() -> bool:
        told = any("cannot run alone" in one for one in caplog.messages)
        return told and not engine.requests["Heartbeat"][-1].held

    async with worker(client, closure):
        await client.start_workflow("CallOne", args=["closure", 1], id="w", task_queue=QUEUE)
        await engine.until(free)
        (token,) = engine.runs.started_attempts
    assert list(engine.requests["Goodbye"][0].released_tokens) == []
    assert token
    assert not engine.completions("task_crash")
    assert not engine.completions("activity_failure")


async def test_a_process_that_ends_before_it_is_ready_is_no_crash(
    engine: FakeEngine,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It cannot import what this one could, which does it itself from then on."""
    caplog.set_level(logging.INFO, "perdure")
    module = tmp_path / "only_once.py"
    module.write_text(
        "from perdure import activity\n"
        "@activity.defn\n"
        "async def once(unused: object) -> str:\n"
        "    return 'done'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import only_once  # type: ignore[import-not-found]  # written just now

    module.write_text("raise SystemExit(9)\n")
    async with worker(client, only_once.once):
        assert await run(client, "once") == "done"
    assert any("ended before it was ready (exit code 9)" in one for one in caplog.messages)
    assert not engine.completions("task_crash")


async def test_surgical_tasks_give_their_places_back(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = 3
    async with worker(client, surgical=SurgicalPool(slots=1)):
        for number in range(3):
            found = await client.execute_workflow(
                "CallOne", args=["die", f"{number}"], id=f"w{number}", task_queue=QUEUE
            )
            assert found == f"{number}"
