"""Signals, wait conditions and queries."""

import asyncio

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, new_instance, value_of

from perdure import workflow
from perdure._failure_info import ApplicationInfo
from perdure._replay.messages import Query, TaskSuccess


@workflow.defn
class Collector:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.slow_done = 0

    @workflow.run
    async def run(self, wanted: int) -> list[str]:
        await workflow.wait_condition(lambda: len(self.items) >= wanted)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.items

    @workflow.signal
    def add(self, item: str, *more: str) -> None:
        self.items.extend([item, *more])

    @workflow.signal(name="slow add")
    async def add_slowly(self, item: str) -> None:
        await workflow.sleep(5)
        self.items.append(item)
        self.slow_done += 1

    @workflow.query
    def count(self) -> int:
        return len(self.items)

    @workflow.query(name="item at")
    def at(self, index: int) -> str:
        return self.items[index]


def test_signals_are_handled_in_the_order_of_the_history() -> None:
    run = PocketEngine(Collector, 3)
    run.signal("add", "a")
    assert run.task() == []
    run.signal("add", "b", "c")

    assert names(run.task()) == ["CompleteWorkflow ['a', 'b', 'c']"]
    assert names(run.replay()) == ["CompleteWorkflow ['a', 'b', 'c']"]


def test_an_async_handler_may_wait_and_the_run_for_it() -> None:
    run = PocketEngine(Collector, 1)
    run.signal("slow add", "s")
    assert names(run.task()) == ["StartTimer 1 5000"]
    run.signal("add", "a")
    assert run.task() == []  # enough items, but a handler still runs
    run.fire("1")

    assert names(run.task()) == ["CompleteWorkflow ['a', 's']"]
    assert names(run.replay()) == ["CompleteWorkflow ['a', 's']"]


def test_signals_without_a_handler_are_kept_until_there_is_one() -> None:
    @workflow.defn
    class Late:
        @workflow.signal
        def ready(self) -> None:
            def take(number: int) -> None:
                seen.append(number)

            workflow.set_signal_handler("numbers", take)

        @workflow.run
        async def run(self) -> list[int]:
            await workflow.wait_condition(lambda: len(seen) == 2)
            return seen

    seen: list[int] = []
    run = PocketEngine(Late)
    run.signal("numbers", 1)
    run.signal("numbers", 2)
    run.task()
    assert seen == []
    run.signal("ready")
    assert names(run.task()) == ["CompleteWorkflow [1, 2]"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "Collector.add cannot take 0 argument(s)"),
        (({"not": "a text"},), "argument 1 (item) of Collector.add: a json/plain payload cannot"),
    ],
)
def test_a_signal_that_its_handler_cannot_take_fails_the_task(
    args: tuple[object, ...], said: str
) -> None:
    run = PocketEngine(Collector, 1)
    run.signal("add", *args)

    task = run.failed_task()
    assert task.cause.name == "PAYLOAD_DECODE"
    assert said in task.failure.message


def test_an_error_in_a_handler_fails_the_run() -> None:
    @workflow.defn
    class Fragile:
        @workflow.signal
        def crack(self) -> None:
            raise ValueError("broken")

        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

    run = PocketEngine(Fragile)
    run.task()
    run.signal("crack")

    assert names(run.task()) == ["FailWorkflow broken"]


def test_a_condition_is_true_when_wait_condition_returns() -> None:
    """Two wait for the same token; the one that wakes first takes it."""

    @workflow.defn
    class Tokens:
        def __init__(self) -> None:
            self.tokens = 0
            self.took: list[str] = []

        @workflow.signal
        def give(self) -> None:
            self.tokens += 1

        async def taker(self, name: str) -> None:
            await workflow.wait_condition(lambda: self.tokens > 0)
            self.tokens -= 1
            assert self.tokens >= 0
            self.took.append(name)

        @workflow.run
        async def run(self) -> list[str]:
            await asyncio.gather(self.taker("first"), self.taker("second"))
            return self.took

    run = PocketEngine(Tokens)
    run.task()
    run.signal("give")
    assert run.task() == []
    run.signal("give")
    assert names(run.task()) == ["CompleteWorkflow ['first', 'second']"]


def test_an_error_in_a_condition_is_raised_where_it_is_waited_for() -> None:
    @workflow.defn
    class Odd:
        def __init__(self) -> None:
            self.box: list[int] = [1]

        @workflow.signal
        def empty(self) -> None:
            self.box.clear()

        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.wait_condition(lambda: self.box[0] == 2)
            except IndexError:
                return "empty"
            return "two"

    run = PocketEngine(Odd)
    run.task()
    run.signal("empty")
    assert names(run.task()) == ["CompleteWorkflow empty"]


def test_queries_see_the_state_after_the_task() -> None:
    run = PocketEngine(Collector, 3)
    run.signal("add", "a")
    run.queries = [Query(query_token=b"1", query_type="count", args=[], header={})]
    outcome = run.run_task()
    run.queries = []

    assert isinstance(outcome, TaskSuccess)
    assert [value_of(one.result) for one in outcome.query_results] == [1]
    assert value_of(run.query("item at", 0).result) == "a"


def test_a_fresh_instance_answers_from_the_replayed_history_of_a_closed_run() -> None:
    run = PocketEngine(Collector, 1)
    run.signal("add", "a")
    run.task()

    run.instance = new_instance(Collector)
    query = Query(query_token=b"q", query_type="count", args=[], header={})
    outcome = run.instance.activate(run.message(run.events, queries=[query], query_only=True))

    assert isinstance(outcome, TaskSuccess)
    assert outcome.commands == []
    assert value_of(outcome.query_results[0].result) == 1


@pytest.mark.parametrize(
    ("query", "args", "type_", "said"),
    [
        ("counts", (), "UnknownQuery", "known: count, item at, __stack_trace"),
        ("item at", (5,), "IndexError", "out of range"),
        ("item at", ("x",), "PayloadDecodeError", "cannot be decoded as builtins.int"),
        ("item at", (), "PayloadDecodeError", "cannot take 0 argument(s)"),
    ],
)
def test_a_query_that_fails_says_why_and_harms_nothing(
    query: str, args: tuple[object, ...], type_: str, said: str
) -> None:
    run = PocketEngine(Collector, 1)
    run.task()

    failure = run.query(query, *args).failure

    assert failure is not None
    assert isinstance(failure.info, ApplicationInfo)
    assert failure.info.type == type_
    assert said in failure.message
    run.signal("add", "a")
    assert names(run.task()) == ["CompleteWorkflow ['a']"]


def test_a_query_may_not_change_the_run() -> None:
    @workflow.defn
    class Meddling:
        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: False)

        @workflow.query
        def begin(self, what: str) -> str:
            if what == "task":
                asyncio.get_running_loop().create_task(workflow.sleep(1))
            elif what == "timer":
                asyncio.get_running_loop().call_later(1, print)
            else:
                workflow.random()
            return "done"

    run = PocketEngine(Meddling)
    run.task()

    for what in ("task", "timer", "random"):
        failure = run.query("begin", what).failure
        assert failure is not None
        assert "query 'begin' must not change the workflow" in failure.message


def test_a_wait_condition_may_not_change_the_run() -> None:
    @workflow.defn
    class Meddling:
        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: workflow.random().random() > 2)

    failure = PocketEngine(Meddling).failed_task()
    assert failure.cause.name == "WORKER_FAILURE"
    assert "a wait condition must not change the workflow" in failure.failure.message


def test_the_stack_trace_names_the_lines_that_wait() -> None:
    run = PocketEngine(Collector, 1)
    run.signal("slow add", "s")
    run.task()

    text = value_of(run.query("__stack_trace").result)

    assert "main:" in text
    assert "Collector.run" in text
    assert "signal slow add:" in text
    assert "Collector.add_slowly" in text
    assert __file__ in text


@workflow.defn
class Drain:
    """Takes what there is, and ends."""

    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.signal
    async def put(self, item: str) -> None:
        self.items.append(item)

    @workflow.run
    async def run(self) -> list[str]:
        return self.items


def test_what_was_signalled_with_the_start_is_there_when_the_code_begins() -> None:
    """Or a run that ends without waiting would lose what it acknowledged."""
    run = PocketEngine(Drain)
    run.signal("put", "a")
    run.signal("put", "b")

    assert names(run.task()) == ["CompleteWorkflow ['a', 'b']"]
    assert names(run.replay()) == ["CompleteWorkflow ['a', 'b']"]


def test_a_handler_that_fails_the_run_before_its_code_begins() -> None:
    @workflow.defn
    class Never:
        @workflow.signal
        def crack(self) -> None:
            raise ValueError("broken")

        @workflow.run
        async def run(self) -> None:
            begun.append(True)

    begun: list[bool] = []
    run = PocketEngine(Never)
    run.signal("crack")

    assert names(run.task()) == ["FailWorkflow broken"]
    assert begun == []
