"""The order of things: which events reach the code when, and which tasks an object takes."""

import pytest
from tests.unit.sdk.engine_in_small import START_US, PocketEngine, names, new_instance

from perdure import workflow
from perdure._replay.messages import (
    ActivityTaskCompleted,
    TaskFailure,
    TaskSuccess,
    TimerFired,
    WorkflowTaskCompleted,
    WorkflowTaskFailedOrTimedOut,
)


@workflow.defn
class Diary:
    """Writes down what it sees: (what, seconds since the start, replaying)."""

    def __init__(self) -> None:
        self.pages: list[tuple[str, int, bool]] = []
        self.stop = False

    def write(self, what: str) -> None:
        second = (workflow.time_ns() // 1000 - START_US) // 1_000_000
        self.pages.append((what, second, workflow.unsafe.is_replaying()))

    @workflow.signal
    def note(self, what: str) -> None:
        self.write(what)
        self.stop = what == "stop"

    @workflow.query
    def read(self) -> list[tuple[str, int, bool]]:
        return self.pages

    @workflow.run
    async def run(self) -> list[tuple[str, int, bool]]:
        self.write("begin")
        await workflow.sleep(1)
        self.write("woke")
        await workflow.wait_condition(lambda: self.stop)
        return self.pages


def pages(name: str) -> str:
    return name.removeprefix("CompleteWorkflow ")


def test_in_one_task_what_was_sent_reaches_the_code_before_outcomes() -> None:
    """And before the code's own beginning: handlers of what came with the start go before it."""
    run = PocketEngine(Diary)
    run.signal("note", "with the start")
    run.task()
    run.signal("note", "before the timer")
    run.fire("1")
    run.signal("note", "after the timer")
    run.task()
    run.signal("note", "stop")

    (live,) = names(run.task())
    assert pages(live) == str(
        [
            ["with the start", 1, False],
            ["begin", 1, False],
            ["before the timer", 2, False],
            ["after the timer", 2, False],
            ["woke", 2, False],
            ["stop", 3, False],
        ]
    )
    (replayed,) = names(run.replay())
    assert pages(replayed) == pages(live).replace("False", "True").replace(
        "'stop', 3, True", "'stop', 3, False"
    )


def test_what_led_to_a_task_that_failed_goes_to_the_next_one() -> None:
    run = PocketEngine(Diary)
    run.signal("note", "early")
    run.fail_task()
    run.signal("note", "stop")
    run.fail_task()

    assert names(run.task()) == ["StartTimer 1 1000"]
    run.fire("1")
    (live,) = names(run.task())
    assert pages(live) == str(
        [["early", 3, False], ["stop", 3, False], ["begin", 3, False], ["woke", 4, False]]
    )
    assert names(run.replay())[0].count("True") == 3


def test_a_cached_run_takes_the_whole_history_too() -> None:
    run = PocketEngine(Diary)
    run.task()
    run.fire("1")
    run.signal("note", "stop")
    run.begin_task()
    task = run.message(run.events)

    assert run.instance.fits(task)
    outcome = run.instance.activate(task)

    assert isinstance(outcome, TaskSuccess)
    assert len(names(outcome.commands)) == 1


def test_a_cached_run_whose_commands_were_not_taken_does_not_fit() -> None:
    """The engine refused the completion: some event had come in between."""
    run = PocketEngine(Diary)
    run.begin_task()
    ours = run.instance.activate(run.message(run.events))
    assert isinstance(ours, TaskSuccess)
    run.add(WorkflowTaskFailedOrTimedOut)
    run.begin_task()
    again = run.message(run.events)

    assert not run.instance.fits(again)
    assert isinstance(run.instance.activate(again), TaskFailure)
    assert isinstance(new_instance(Diary).activate(again), TaskSuccess)


def test_a_fresh_object_does_not_take_the_middle_of_a_history() -> None:
    run = PocketEngine(Diary)
    run.task()
    run.fire("1")
    run.begin_task()
    delta = run.message(run.events[4:])
    fresh = new_instance(Diary)

    assert not fresh.fits(delta)
    outcome = fresh.activate(delta)
    assert isinstance(outcome, TaskFailure)
    assert outcome.cause.name == "WORKER_FAILURE"
    assert "do not join" in outcome.failure.message


def test_a_gap_in_the_history_is_an_error() -> None:
    run = PocketEngine(Diary)
    run.task()
    run.fire("1")
    run.begin_task()
    with_gap = [event for event in run.events if event.event_id != 5]

    outcome = new_instance(Diary).activate(run.message(with_gap))

    assert isinstance(outcome, TaskFailure)
    assert "event 6 follows event 4: some are missing" in outcome.failure.message


def test_a_task_that_failed_cannot_have_been_completed() -> None:
    run = PocketEngine(Diary)
    run.fail_task()
    run.add(WorkflowTaskCompleted, build_id="")

    outcome = new_instance(Diary).activate(run.message(run.events, query_only=True))

    assert isinstance(outcome, TaskFailure)
    assert "completes a task that did not start" in outcome.failure.message


@pytest.mark.parametrize("what", ["timer", "activity"])
def test_an_outcome_of_what_was_never_begun_is_an_error(what: str) -> None:
    run = PocketEngine(Diary)
    run.task()
    if what == "timer":
        run.add(TimerFired, timer_id="9", started_event_id=2)
    else:
        run.add(ActivityTaskCompleted, scheduled_event_id=2, result=[])

    assert run.failed_task().cause.name == "WORKER_FAILURE"


def test_a_run_that_was_terminated_can_still_be_queried() -> None:
    run = PocketEngine(Diary)
    run.task()
    run.signal("note", "never seen")
    run.close("WorkflowExecutionTerminated")

    run.instance = new_instance(Diary)
    outcome = run.instance.activate(run.message(run.events, query_only=True))
    assert isinstance(outcome, TaskSuccess)
    assert run.instance.is_closed


def test_a_query_before_the_first_workflow_task_says_so() -> None:
    run = PocketEngine(Diary)

    failure = run.query("read").failure

    assert failure is not None
    assert "has not begun" in failure.message


def test_an_object_that_failed_a_task_takes_no_other() -> None:
    run = PocketEngine(Diary)
    run.signal("note")  # without its argument
    run.failed_task()
    run.begin_task()

    assert not run.instance.fits(run.message(run.events))
