"""`Replayer`: recorded histories against the code of today."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.testing import changed, programs

from perdure.client import Client, WorkflowHistory
from perdure.errors import (
    HistoryError,
    NondeterminismError,
    PayloadDecodeError,
    UnknownWorkflowTypeError,
)
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer, Worker


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue="q",
            workflows=[programs.Sleeper, programs.Waiter, programs.Retrier],
            activities=[programs.third_time_lucky],
        )
        async with worker:
            yield env.client


async def sleeper(client: Client) -> WorkflowHistory:
    handle = await client.start_workflow(programs.Sleeper.run, 2, id="s", task_queue="q")
    await handle.result()
    return await handle.fetch_history()


async def test_what_has_not_changed_replays(client: Client) -> None:
    history = await sleeper(client)

    result = await Replayer(workflows=[programs.Sleeper]).replay_workflow(history)

    assert result.replay_failure is None
    assert result.history is history
    assert history.run_id == (await client.get_workflow_handle("s").describe()).run_id


async def test_from_a_file(client: Client, tmp_path: Path) -> None:
    """What is replayed is what was written: nothing else of the history is needed."""
    file = tmp_path / "history.json"
    file.write_text((await sleeper(client)).to_json(), encoding="utf-8")

    history = WorkflowHistory.from_json("s", file.read_text(encoding="utf-8"))

    await Replayer(workflows=[programs.Sleeper]).replay_workflow(history)
    with pytest.raises(NondeterminismError):
        await Replayer(workflows=[changed.TwoTimers]).replay_workflow(history)


async def test_an_open_run_is_replayed_as_far_as_it_is(client: Client) -> None:
    handle = await client.start_workflow(
        programs.Waiter.run, args=[3600.0, True], id="w", task_queue="q"
    )
    await handle.signal(programs.Waiter.tell, "one")
    assert await handle.query(programs.Waiter.told) == ["one"]

    await Replayer(workflows=[programs.Waiter]).replay_workflow(await handle.fetch_history())


async def test_activities_and_their_results_come_from_the_history(client: Client) -> None:
    handle = await client.start_workflow(programs.Retrier.run, id="r", task_queue="q")
    await handle.result()

    await Replayer(workflows=[programs.Retrier]).replay_workflow(await handle.fetch_history())


async def test_a_change_is_named_with_its_line_and_the_event(client: Client) -> None:
    with pytest.raises(NondeterminismError) as caught:
        await Replayer(workflows=[changed.TwoTimers]).replay_workflow(await sleeper(client))

    lines, first = inspect.getsourcelines(changed.TwoTimers)
    at = next(number for number, line in enumerate(lines, first) if "must name" in line)
    assert f"changed.py:{at}" in str(caught.value)
    assert caught.value.event_type == "TimerStarted"
    assert caught.value.event_id is not None


async def test_a_command_too_few_is_found(client: Client) -> None:
    history = await sleeper(client)

    result = await Replayer(workflows=[changed.OneDayLess]).replay_workflow(
        history, raise_on_replay_failure=False
    )

    assert isinstance(result.replay_failure, NondeterminismError)


async def test_an_input_that_the_code_does_not_take_any_more(client: Client) -> None:
    result = await Replayer(workflows=[changed.WrongInput]).replay_workflow(
        await sleeper(client), raise_on_replay_failure=False
    )

    assert isinstance(result.replay_failure, PayloadDecodeError)


async def test_many_at_once(client: Client) -> None:
    good, bad = await sleeper(client), await client_history(client, "other")

    async def histories() -> AsyncIterator[WorkflowHistory]:
        yield good
        yield bad

    replayer = Replayer(workflows=[programs.Sleeper])
    results = await replayer.replay_workflows(histories(), raise_on_replay_failure=False)

    assert set(results.replay_failures) == {bad.run_id}
    assert isinstance(results.replay_failures[bad.run_id or ""], UnknownWorkflowTypeError)
    with pytest.raises(UnknownWorkflowTypeError, match="Waiter"):
        await replayer.replay_workflows(histories())
    async with replayer.workflow_replay_iterator(histories()) as one_by_one:
        found = [result.replay_failure is None async for result in one_by_one]
    assert found == [True, False]


async def client_history(client: Client, workflow_id: str) -> WorkflowHistory:
    handle = await client.start_workflow(
        programs.Waiter.run, args=[1.0], id=workflow_id, task_queue="q"
    )
    await handle.result()
    return await handle.fetch_history()


async def test_half_a_history_is_none(client: Client) -> None:
    history = await sleeper(client)
    headless = WorkflowHistory("s", None, history.events[1:])
    gap = WorkflowHistory("s", None, [*history.events[:3], *history.events[5:]])
    replayer = Replayer(workflows=[programs.Sleeper])

    for broken in (headless, gap, WorkflowHistory("s", None, [])):
        with pytest.raises(HistoryError):
            await replayer.replay_workflow(broken)


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Replayer(workflows=[])
    with pytest.raises(ValueError, match="registered twice"):
        Replayer(workflows=[programs.Sleeper, changed.OneDayLess])
    with pytest.raises(TypeError, match="not a workflow"):
        Replayer(workflows=[dict])
