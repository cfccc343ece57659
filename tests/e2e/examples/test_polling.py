"""sdk/examples/polling"""

from __future__ import annotations

from datetime import timedelta

from tests.e2e.examples.loading import load_example

from perdure.testing import WorkflowEnvironment

polling = load_example("polling/polling.py")


async def test_retries_wait_without_a_history(workflow_environment: WorkflowEnvironment) -> None:
    client, oven = workflow_environment.client, polling.Oven(ready_after=20)
    async with polling.make_worker(client, oven):
        handle = await client.start_workflow(
            polling.WaitShortly.run, id="short", task_queue=polling.TASK_QUEUE
        )
        assert await handle.result() == 220
        events = (await handle.fetch_history()).events

    assert oven.asked == 21
    assert [event.event_type for event in events].count("ActivityTaskStarted") == 1


async def test_runs_follow_each_other_for_as_long_as_it_takes(
    workflow_environment: WorkflowEnvironment,
) -> None:
    client, oven = workflow_environment.client, polling.Oven(ready_after=250)
    wish = polling.Wish(at_least=200, ask_every=timedelta(hours=1))
    before = await workflow_environment.get_current_time()
    async with polling.make_worker(client, oven):
        answer = await client.execute_workflow(
            polling.WaitLong.run, wish, id="long", task_queue=polling.TASK_QUEUE
        )
        runs = [run async for run in client.list_workflows()]

    assert answer == polling.Answer(220, questions=251)
    assert len(runs) == 3
    took = await workflow_environment.get_current_time() - before
    assert timedelta(hours=250) <= took < timedelta(hours=251)
