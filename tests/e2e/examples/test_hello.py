"""sdk/examples/hello"""

from __future__ import annotations

from tests.e2e.command_line import CommandLine
from tests.e2e.examples.loading import EXAMPLES, load_example

from perdure.testing import ActivityEnvironment, WorkflowEnvironment
from perdure.worker import Replayer

hello = load_example("hello/hello.py")


async def test_it_greets(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    async with hello.make_worker(client):
        assert await hello.greet(client, "Ada") == "Hello, Ada!"


async def test_its_history_replays(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    async with hello.make_worker(client):
        await hello.greet(client, "Ada")
        (run,) = [run async for run in client.list_workflows()]
        history = await client.get_workflow_handle(run.id).fetch_history()

    await Replayer(workflows=[hello.Greet]).replay_workflow(history)


async def test_its_activity(activity_environment: ActivityEnvironment) -> None:
    assert await activity_environment.run(hello.compose_greeting, "Ada") == "Hello, Ada!"


def test_it_runs_with_one_command(dev: CommandLine) -> None:
    program = dev.folder / "hello.py"
    program.write_text((EXAMPLES / "hello/hello.py").read_text("utf-8"), "utf-8")

    assert dev.start_program(program).wait(60) == 0

    assert program.with_suffix(".log").read_text("utf-8") == "Hello, World!\n"
