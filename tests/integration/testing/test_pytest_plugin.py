"""The plug-in in pytest runs of its own, as a user's project has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import timedelta
from perdure import activity, workflow

@activity.defn
async def compose(name: str) -> str:
    return f"Hello, {name}!"

@workflow.defn
class Greet:
    @workflow.run
    async def run(self, name: str) -> str:
        await workflow.sleep(timedelta(days=30))
        return await workflow.execute_activity(
            compose, name, start_to_close_timeout=timedelta(seconds=5)
        )
"""
TESTS = """
import pytest
from program import Greet, compose

{mark}
async def test_greets(workflow_environment, workflow_client, perdure_worker):
    assert workflow_environment.supports_time_skipping
    worker = await perdure_worker(workflows=[Greet], activities=[compose])
    other = await perdure_worker(workflows=[Greet], task_queue="other")
    assert worker.task_queue != other.task_queue == "other"
    assert await workflow_client.execute_workflow(
        Greet.run, "Ada", id="greet", task_queue=worker.task_queue
    ) == "Hello, Ada!"

{mark}
async def test_each_test_has_an_engine_of_its_own(workflow_client):
    assert (await workflow_client.count_workflows()).count == 0

{mark}
async def test_composes(activity_environment):
    assert await activity_environment.run(compose, "Ada") == "Hello, Ada!"
"""
SESSION = """
import pytest_asyncio
from perdure.testing import WorkflowEnvironment
from program import Greet, compose
from perdure.worker import Worker

@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def env():
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env

async def greet(env, number):
    async with Worker(env.client, task_queue="q", workflows=[Greet], activities=[compose]):
        await env.client.execute_workflow(Greet.run, "Ada", id=f"g-{number}", task_queue="q")
    assert (await env.client.count_workflows()).count == number

async def test_one(env):
    await greet(env, 1)

async def test_two(env):
    await greet(env, 2)
"""
OTHER = """
import sys

def test_nothing_of_perdure_was_imported_but_the_plugin():
    heavy = {"grpc", "google.protobuf", "msgspec", "perdure.client", "perdure.worker"}
    assert heavy & set(sys.modules) == set()
    assert "perdure.testing.pytest_plugin" in sys.modules
"""
WITHOUT_ASYNCIO = """
from perdure import activity

def test_runs(activity_environment):
    assert activity_environment.run(lambda: activity.info().attempt) == 1
"""


# Warnings are errors: nothing is left open or unawaited. Unset, the last one is a warning of its own.
STRICT = ("-W", "error", "-o", "asyncio_default_fixture_loop_scope=function")


def run_pytest(folder: Path, *arguments: str) -> str:
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.parametrize(("mode", "mark"), [("auto", ""), ("strict", "@pytest.mark.asyncio")])
def test_the_fixtures(tmp_path: Path, mode: str, mark: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(mark=mark), encoding="utf-8")

    assert "3 passed" in run_pytest(tmp_path, *STRICT, "-o", f"asyncio_mode={mode}")


def test_an_environment_for_a_session(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SESSION, encoding="utf-8")

    loops = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session")
    assert "2 passed" in run_pytest(tmp_path, *STRICT, *loops)


def test_a_run_without_them_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(OTHER, encoding="utf-8")

    assert "1 passed" in run_pytest(tmp_path)


def test_without_pytest_asyncio(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(WITHOUT_ASYNCIO, encoding="utf-8")

    assert "1 passed" in run_pytest(tmp_path, "-p", "no:asyncio")
