"""What programs that were written for Temporal's SDK find here (engine/adr/0017)."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import time
import typing
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import (
    activity,
    client,
    common,
    converter,
    errors,
    exceptions,
    service,
    worker,
    workflow,
)
from perdure._client.options import build_start
from perdure._definitions import activity_definition
from perdure._worker.compatible import TuningOptions, check_options
from perdure.contrib.pydantic import pydantic_data_converter
from perdure.envconfig import ClientConfig, ClientConfigProfile
from perdure.testing import ActivityEnvironment

SECOND = timedelta(seconds=1)


# --- the same things under other names -------------------------------------------------------------


def test_names_are_other_names_for_the_same_things() -> None:
    assert exceptions.TemporalError is errors.PerdureError
    assert all(
        getattr(exceptions, name) is getattr(errors, name)
        for name in exceptions.__all__
        if name != "TemporalError"
    )
    assert service.RPCError is errors.RPCError
    assert common.WorkflowIDReusePolicy is common.WorkflowIdReusePolicy
    assert common.WorkflowIDConflictPolicy is common.WorkflowIdConflictPolicy
    assert client.WorkflowExecutionStatus is common.WorkflowStatus
    assert pydantic_data_converter is converter.DataConverter.default
    assert common.Priority.default == common.Priority()
    assert converter.PayloadConverter.default.to_payload(1).data == b"1"


@pytest.mark.parametrize(
    "module", ["activity", "client", "workflow", "exceptions", "schedule", "service", "worker"]
)
def test_what_a_module_offers_is_there(module: str) -> None:
    found = importlib.import_module(f"perdure.{module}")
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_categories_are_texts_on_the_wire() -> None:
    category = exceptions.ApplicationErrorCategory.BENIGN
    assert exceptions.ApplicationError("x", category=category).category == "benign"
    assert exceptions.ApplicationErrorCategory("") is category.UNSPECIFIED


@workflow.defn
class TellsAllOfIt:
    @workflow.run
    async def run(self) -> list[str]:
        return sorted(workflow.info().__dict__)


def test_infos_can_be_told_whole_to_those_who_collect_errors() -> None:
    fields = sorted(field.name for field in dataclasses.fields(workflow.Info))
    assert names(PocketEngine(TellsAllOfIt).task()) == [f"CompleteWorkflow {fields}"]
    assert ActivityEnvironment.default_info().__dict__["workflow_id"] == "test"


# --- options ------------------------------------------------------------------------------------


@workflow.defn
class Calls:
    @workflow.run
    async def run(self, local: bool) -> None:
        wrong: dict[str, Any] = {"retry_polcy": None}
        call = workflow.execute_local_activity if local else workflow.execute_activity
        await call("pay", start_to_close_timeout=SECOND, **wrong)


@pytest.mark.parametrize("local", [False, True])
def test_an_option_with_a_slip_in_its_name_is_refused(local: bool) -> None:
    assert names(PocketEngine(Calls, local).task()) == [
        "FailWorkflow activity 'pay': there is no option 'retry_polcy'"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "a", "task_queue": "q", "id_reuse_polcy": 1}, "no option 'id_reuse_polcy'"),
        ({"id": "a"}, "task_queue is missing"),
        ({"task_queue": "q"}, "id is missing"),
    ],
)
def test_options_of_a_start_are_checked(options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build_start(
            options,
            workflow_type="W",
            args=(),
            namespace="n",
            identity="i",
            request_id="r",
            converter=converter.PayloadConverter.default,
        )


def test_tuning_that_has_no_object_here_is_taken_and_anything_else_refused() -> None:
    check_options(dict.fromkeys(TuningOptions.__annotations__, None), "Worker")

    with pytest.raises(TypeError, match="Worker got an unexpected keyword argument 'max_polls'"):
        check_options({"max_polls": 1, "workflow_task_executor": None}, "Worker")


# --- workflows ------------------------------------------------------------------------------------


@workflow.defn(sandboxed=False)
class Unguarded:
    @workflow.run
    async def run(self) -> bool:
        return time.time() > 0 and workflow.unsafe.is_sandbox_unrestricted()  # noqa: TID251 - that is it


@workflow.defn
class Guarded:
    @workflow.run
    async def run(self) -> list[bool]:
        unsafe = workflow.unsafe
        return [unsafe.in_sandbox(), unsafe.is_sandbox_unrestricted(), unsafe.is_read_only()]


def test_a_workflow_that_is_not_sandboxed_has_no_guard() -> None:
    assert names(PocketEngine(Unguarded).task()) == ["CompleteWorkflow True"]
    assert names(PocketEngine(Guarded).task()) == ["CompleteWorkflow [False, False, False]"]
    assert worker.UnsandboxedWorkflowRunner().guarded is False
    assert worker.SandboxedWorkflowRunner().guarded is True


@workflow.defn
class Handlers:
    @workflow.update
    def add(self, number: int) -> int:
        return number + 1

    @workflow.run
    async def run(self) -> list[Any]:
        own = workflow.get_update_handler("add")
        assert own is not None
        workflow.set_update_handler("add", None)
        gone = workflow.get_update_handler("add")
        workflow.set_dynamic_update_handler(lambda name, args: name)
        dynamic = workflow.get_dynamic_update_handler()
        assert dynamic is not None
        return [own(1), gone, dynamic("x", [])]


def test_update_handlers_can_be_looked_up() -> None:
    assert names(PocketEngine(Handlers).task()) == ["CompleteWorkflow [2, None, 'x']"]


# --- activities -----------------------------------------------------------------------------------


def test_a_dynamic_activity_may_say_either_sequence() -> None:
    @activity.defn(dynamic=True)
    async def any_name(args: typing.Sequence[common.RawValue]) -> None: ...

    @activity.defn(dynamic=True)
    async def one_text(args: Sequence[str]) -> None: ...

    assert activity_definition(any_name).is_dynamic
    with pytest.raises(TypeError, match="must take one parameter"):
        activity_definition(one_text)


async def test_waiting_for_the_end_in_an_async_activity() -> None:
    environment = ActivityEnvironment()
    waiting, stopping = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        cancelled = asyncio.ensure_future(activity.wait_for_cancelled())
        waiting.set()
        await activity.wait_for_worker_shutdown()
        stopping.set()
        try:
            await asyncio.shield(cancelled)
        except asyncio.CancelledError:
            await cancelled
        details = activity.cancellation_details()
        return "" if details is None else f"paused={details.paused}"

    running = asyncio.ensure_future(environment.run(work))
    await waiting.wait()
    environment.worker_shutdown()
    await stopping.wait()
    environment.cancel(activity.ActivityCancellationDetails(paused=True))
    assert await running == "paused=True"


async def test_waiting_for_what_has_happened_returns_at_once() -> None:
    environment = ActivityEnvironment()
    environment.worker_shutdown()
    await environment.run(activity.wait_for_worker_shutdown)


# --- where the engine is --------------------------------------------------------------------------


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('address = "there:1"\nnamespace = "n"\noutput = "json"\n', "utf-8")
    named = {"PERDURE_CONFIG": str(config)}

    load = ClientConfig.load_client_connect_config
    assert load(override_env_vars=named) == {"target_host": "there:1", "namespace": "n"}
    assert load(override_env_vars={**named, "PERDURE_ADDRESS": "here:2"}) == {
        "target_host": "here:2",
        "namespace": "n",
    }
    assert load(override_env_vars={"HOME": str(tmp_path)}) == {}

    profile = ClientConfigProfile.load(override_env_vars=named)
    assert ClientConfigProfile.from_dict(profile.to_dict()) == profile
    assert ClientConfigProfile.from_dict({}).to_dict() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [("address = 1", "address must be a text, not 1"), ("address", "is not TOML")],
)
def test_a_file_that_is_not_what_it_should_be(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message):
        ClientConfigProfile.load(override_env_vars={"PERDURE_CONFIG": str(config)})
    with pytest.raises(FileNotFoundError):
        ClientConfigProfile.load(override_env_vars={"PERDURE_CONFIG": str(tmp_path / "none")})


async def test_a_web_address_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="HOST:PORT, without the scheme"):
        await client.Client.connect("http://localhost:7233")
