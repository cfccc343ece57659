"""What workflow code can ask about its run."""

import logging
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, payloads

from perdure import workflow
from perdure._replay.randomness import Randomness
from perdure.common import Priority


@workflow.defn
class Asking:
    @workflow.run
    async def run(self, what: str) -> object:
        if what == "random":
            return [workflow.random().randint(1, 100) for _ in range(3)]
        if what == "uuid":
            return [workflow.uuid4(), workflow.uuid4()]
        if what == "uuid7":
            return [workflow.uuid7(), workflow.uuid7()]
        if what == "another random":
            other = workflow.new_random()
            drawn = workflow.random().random()
            return [drawn, other.random(), workflow.new_random().random(), other.random()]
        if what == "another random unused":
            workflow.new_random()
            return workflow.random().random()
        if what == "memo":
            return [
                dict(workflow.memo()),
                workflow.memo_value("when", type_hint=datetime).year,
                workflow.memo_value("none", "default"),
            ]
        if what == "no memo":
            return workflow.memo_value("none")
        if what == "now":
            return [workflow.now(), workflow.time(), workflow.time_ns()]
        return None


def test_time_is_that_of_the_workflow_task() -> None:
    (name,) = names(PocketEngine(Asking, "now").task())

    assert name == ("CompleteWorkflow ['2023-11-14T22:13:21Z', 1700000001.0, 1700000001000000000]")


@pytest.mark.parametrize("what", ["random", "uuid", "uuid7", "another random"])
def test_chance_is_the_same_on_each_replay(what: str) -> None:
    run = PocketEngine(Asking, what)
    live = names(run.task())

    assert names(run.replay()) == live
    assert names(PocketEngine(Asking, what).task()) == live  # by the run id


def test_uuids_are_of_version_4_and_differ() -> None:
    (name,) = names(PocketEngine(Asking, "uuid").task())
    first, second = name.removeprefix("CompleteWorkflow ['").removesuffix("']").split("', '")

    assert first != second
    assert first[14] == second[14] == "4"


def test_uuids_of_version_7_begin_with_the_workflows_time() -> None:
    (name,) = names(PocketEngine(Asking, "uuid7").task())
    texts = name.removeprefix("CompleteWorkflow ['").removesuffix("']").split("', '")

    first, second = map(UUID, texts)
    assert first != second
    for one in (first, second):
        assert (one.version, one.variant) == (7, RFC_4122)
        assert one.int >> 80 == 1_700_000_001_000


def test_what_is_drawn_of_another_generator_does_not_change_what_the_runs_own_gives() -> None:
    (all_of_it,) = names(PocketEngine(Asking, "another random").task())
    drawn, *others = all_of_it.removeprefix("CompleteWorkflow [").removesuffix("]").split(", ")

    assert names(PocketEngine(Asking, "another random unused").task()) == [
        f"CompleteWorkflow {drawn}"
    ]
    assert len({drawn, *others}) == 4


def test_after_a_reset_every_generator_draws_anew() -> None:
    def drawn(*, reset: bool) -> list[float]:
        randomness = Randomness()
        randomness.begin("first run")
        own, other = randomness.own(), randomness.another()
        before = [own.random(), other.random()]
        if reset:
            randomness.begin_anew("second run")
        return [*before, own.random(), other.random(), randomness.another().random()]

    first, second = drawn(reset=False), drawn(reset=True)
    assert first[:2] == second[:2]
    assert not set(first[2:]) & set(second)
    assert drawn(reset=True) == second


def test_a_reset_before_anything_was_drawn_counts_too() -> None:
    early, plain = Randomness(), Randomness()
    early.begin_anew("second run")  # its history is read before its code begins
    early.begin("first run")
    plain.begin("second run")
    assert early.own().random() == plain.own().random()


def test_the_memo_is_decoded_by_hint() -> None:
    (when,) = payloads(datetime(2026, 1, 2, tzinfo=UTC))
    run = PocketEngine(Asking, "memo", memo={"when": when})

    assert names(run.task()) == [
        "CompleteWorkflow [{'when': '2026-01-02T00:00:00Z'}, 2026, 'default']"
    ]
    assert names(PocketEngine(Asking, "no memo").task())[0].startswith("FailWorkflow")


def test_info_has_what_is_known() -> None:
    infos: list[workflow.Info] = []

    @workflow.defn(name="About")
    class About:
        @workflow.run
        async def run(self) -> list[object]:
            info = workflow.info()
            infos.append(info)
            assert workflow.info() is info
            assert isinstance(workflow.instance(), About)
            assert workflow.in_workflow()
            before = info.get_current_history_length()
            await workflow.sleep(1)
            return [
                before,
                info.get_current_history_length(),
                info.get_current_history_size(),
                info.is_continue_as_new_suggested(),
            ]

    run = PocketEngine(About)
    run.task()
    run.fire("1")
    assert names(run.task()) == ["CompleteWorkflow [3, 8, 1000, False]"]

    (info,) = infos
    assert info.workflow_id == "w-1"
    assert info.run_id == info.first_execution_run_id
    assert info.workflow_type == "About"
    assert info.task_queue == "orders"
    assert info.namespace == "default"
    assert info.attempt == 1
    assert info.execution_timeout is None
    assert info.task_timeout == timedelta(seconds=10)
    assert info.priority == Priority()
    assert info.start_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_the_logger_is_silent_on_replay_and_says_who_speaks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @workflow.defn
    class Speaking:
        @workflow.run
        async def run(self) -> None:
            workflow.logger.info("hello %s", "you")
            await workflow.sleep(1)
            workflow.logger.info("again", extra={"mine": 1})

        @workflow.query
        def ask(self) -> None:
            workflow.logger.info("in a query")

    caplog.set_level(logging.INFO, "perdure.workflow")
    run = PocketEngine(Speaking)
    run.task()
    assert caplog.messages[0].startswith("hello you (")
    assert caplog.records[0].perdure_workflow["workflow_id"] == "w-1"  # type: ignore[attr-defined]
    caplog.clear()

    run.query("ask")
    run.fire("1")
    assert caplog.messages == []
    run.begin_task()
    run.replay()
    (record,) = caplog.records  # the last task of a replay is new, the first one is not
    assert record.message.startswith("again")
    assert record.mine == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "function",
    [
        workflow.now,
        workflow.info,
        workflow.random,
        workflow.new_random,
        workflow.uuid4,
        workflow.uuid7,
        workflow.memo,
    ],
)
def test_outside_of_workflow_code_there_is_nothing_to_ask(function: object) -> None:
    assert not workflow.in_workflow()
    with pytest.raises(RuntimeError, match="not in workflow code"):
        function()  # type: ignore[operator]


def test_the_logger_works_outside_too(caplog: pytest.LogCaptureFixture) -> None:
    workflow.logger.warning("plain")

    assert caplog.messages == ["plain"]
