"""Updates: validated, accepted or refused without a trace, handled, and the same on every replay."""

import asyncio
import warnings
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, new_instance, value_of

from perdure import activity, workflow
from perdure._failure_info import ApplicationInfo
from perdure._replay.messages import TaskSuccess
from perdure.common import RawValue
from perdure.errors import ApplicationError
from perdure.workflow import HandlerUnfinishedPolicy


@activity.defn
async def ship(to: str) -> str:
    return to


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.address = "home"
        self.log: list[str] = []
        self.closed = False

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: self.closed)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.log

    @workflow.update
    def set_address(self, address: str) -> str:
        before, self.address = self.address, address
        self.log.append(f"address {address}")
        return before

    @set_address.validator
    def check_address(self, address: str) -> None:
        if not address or address == self.address:
            raise ValueError(f"not to {address!r}")

    @workflow.update(name="ship it")
    async def ship(self, to: str) -> str:
        info = workflow.current_update_info()
        assert info is not None
        self.log.append(f"{info.name} {info.id}")
        answer = await workflow.execute_activity(
            ship, to, start_to_close_timeout=timedelta(seconds=10)
        )
        assert workflow.current_update_info() == info
        return answer

    @workflow.update
    def close(self) -> None:
        self.closed = True

    @workflow.update
    async def fail(self, how: str) -> None:
        await workflow.sleep(0)
        if how == "plain":
            raise ValueError("broken")
        raise ApplicationError("refused", type="Refused")


def began() -> PocketEngine:
    run = PocketEngine(Order)
    run.task()
    return run


def same_on_replay(run: PocketEngine) -> None:
    outcome = run.replay_all()
    assert isinstance(outcome, TaskSuccess), outcome.failure


def test_an_update_is_accepted_handled_and_completed_in_one_task() -> None:
    run = began()
    run.update("u-1", "set_address", "work")

    assert names(run.task()) == ["AcceptUpdate u-1", "CompleteUpdate u-1"]
    assert value_of(run.outcomes["u-1"].result) == "home"
    same_on_replay(run)


def test_a_handler_may_wait_for_an_activity() -> None:
    run = began()
    run.update("u-1", "ship it", "Ada")
    assert names(run.task()) == ["AcceptUpdate u-1", "ScheduleActivity 1 ship"]
    run.complete("1", "shipped")

    assert names(run.task()) == ["CompleteUpdate u-1"]
    assert value_of(run.outcomes["u-1"].result) == "shipped"
    same_on_replay(run)


def test_an_accepted_update_goes_on_in_another_worker_that_has_only_the_history() -> None:
    """The worker dies between acceptance and completion."""
    run = began()
    run.update("u-1", "ship it", "Ada")
    run.task()
    run.complete("1", "shipped")
    run.instance.evict()
    run.instance = new_instance(Order)
    run.sent = 0

    assert names(run.task()) == ["CompleteUpdate u-1"]
    assert value_of(run.outcomes["u-1"].result) == "shipped"


@pytest.mark.parametrize("address", ["", "home"])
def test_a_refused_update_leaves_nothing_in_history_or_state(address: str) -> None:
    run = began()
    run.update("u-1", "set_address", address)
    assert names(run.task()) == ["RejectUpdate u-1"]

    failure = run.rejected["u-1"]
    assert isinstance(failure.info, ApplicationInfo)
    assert (failure.info.type, failure.message) == ("ValueError", f"not to {address!r}")
    run.update("u-2", "close")
    assert names(run.task())[-1] == "CompleteWorkflow []"
    same_on_replay(run)


@pytest.mark.parametrize(
    ("name", "args", "type_", "said"),
    [
        ("address", ("x",), "UnknownUpdate", "known: close, fail, set_address, ship it"),
        ("set_address", (), "PayloadDecodeError", "cannot take 0 argument(s)"),
        ("set_address", ({"a": 1},), "PayloadDecodeError", "cannot be decoded"),
    ],
)
def test_an_update_that_nobody_can_take_is_refused_and_the_run_goes_on(
    name: str, args: tuple[object, ...], type_: str, said: str
) -> None:
    run = began()
    run.update("u-1", name, *args)
    assert names(run.task()) == ["RejectUpdate u-1"]

    failure = run.rejected["u-1"]
    assert isinstance(failure.info, ApplicationInfo)
    assert failure.info.type == type_
    assert said in failure.message


def test_each_is_validated_after_the_one_before_was_handled_up_to_its_first_wait() -> None:
    run = began()
    run.update("u-1", "set_address", "work")
    run.update("u-2", "set_address", "work")  # no longer another one
    run.update("u-3", "set_address", "sea")

    assert names(run.task()) == [
        "RejectUpdate u-2",
        "AcceptUpdate u-1",
        "CompleteUpdate u-1",
        "AcceptUpdate u-3",
        "CompleteUpdate u-3",
    ]
    run.update("u-4", "close")
    assert names(run.task())[-1] == "CompleteWorkflow ['address work', 'address sea']"
    same_on_replay(run)


@pytest.mark.parametrize(
    ("how", "type_", "message"), [("plain", "ValueError", "broken"), ("", "Refused", "refused")]
)
def test_what_a_handler_raises_fails_the_update_and_not_the_run(
    how: str, type_: str, message: str
) -> None:
    run = began()
    run.update("u-1", "fail", how)
    assert names(run.task()) == ["AcceptUpdate u-1", "CompleteUpdate u-1"]

    failure = run.outcomes["u-1"].failure
    assert failure is not None
    assert isinstance(failure.info, ApplicationInfo)
    assert (failure.info.type, failure.message) == (type_, message)
    run.update("u-2", "close")
    assert names(run.task())[-1] == "CompleteWorkflow []"
    same_on_replay(run)


def test_a_refused_update_takes_no_number_of_those_that_replay_gives() -> None:
    """Names and hashes of tasks go by the order of their making, random numbers by how often they are asked."""

    @workflow.defn
    class Counting:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.update
        async def name(self, ok: bool) -> str:
            current = asyncio.current_task()
            child = asyncio.ensure_future(workflow.sleep(0))
            assert current is not None
            return f"{hash(current)} {hash(child)} {workflow.uuid4()}"

        @name.validator
        def check(self, ok: bool) -> None:
            if not ok:
                raise ValueError("no")

    def result_of_u1(*updates: tuple[str, bool]) -> str:
        run = PocketEngine(Counting)
        run.task()
        for update_id, ok in updates:
            run.update(update_id, "name", ok)
        run.task()
        same_on_replay(run)
        result: str = value_of(run.outcomes["u-1"].result)
        return result

    with_refused = result_of_u1(("u-0", False), ("u-1", True), ("u-2", False))
    assert with_refused == result_of_u1(("u-1", True))  # which is what a replay sees


def test_a_validator_may_not_change_the_run() -> None:
    @workflow.defn
    class Meddling:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.update
        def change(self) -> None: ...

        @change.validator
        def check(self) -> None:
            workflow.random()

    run = PocketEngine(Meddling)
    run.task()
    run.update("u-1", "change")
    assert names(run.task()) == ["RejectUpdate u-1"]

    assert "the validator of update 'change' must not change" in run.rejected["u-1"].message


def test_on_replay_no_validator_runs() -> None:
    """It may have become stricter: what was accepted was accepted."""
    run = began()
    run.update("u-1", "set_address", "work")
    run.task()

    @workflow.defn(name="Order")
    class Stricter:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.update
        def set_address(self, address: str) -> str:
            return address

        @set_address.validator
        def check_address(self, address: str) -> None:
            raise AssertionError("not on replay")

    outcome = run.replay_all(Stricter)
    assert isinstance(outcome, TaskSuccess), outcome.failure


def test_code_without_the_handler_of_an_accepted_update_is_not_deterministic() -> None:
    run = began()
    run.update("u-1", "set_address", "work")
    run.task()

    @workflow.defn
    class Other:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

    outcome = run.replay_all(Other)
    assert not isinstance(outcome, TaskSuccess)
    assert outcome.cause.name == "NON_DETERMINISM"
    assert "'set_address' was accepted" in outcome.failure.message


def test_handlers_can_be_set_and_one_can_take_every_name() -> None:
    @workflow.defn
    class Open:
        @workflow.run
        async def run(self) -> None:
            def add(number: int) -> int:
                return number + 1

            def check(number: int) -> None:
                if number < 0:
                    raise ValueError("negative")

            workflow.set_update_handler("add", add, validator=check)
            await asyncio.Event().wait()

        @workflow.update(dynamic=True)
        def any_other(self, name: str, args: Sequence[RawValue]) -> str:
            converter = workflow.payload_converter()
            return f"{name}{[converter.from_payload(one.payload, int) for one in args]}"

    run = PocketEngine(Open)
    run.update("u-1", "add", 1)
    run.update("u-2", "add", -1)
    run.update("u-3", "whatever", 1, 2)
    run.task()

    assert value_of(run.outcomes["u-1"].result) == 2
    assert run.rejected["u-2"].message == "negative"
    assert value_of(run.outcomes["u-3"].result) == "whatever[1, 2]"
    same_on_replay(run)


@pytest.mark.parametrize("policy", list(HandlerUnfinishedPolicy))
def test_a_run_that_ends_before_its_handlers_says_so_unless_told_not_to(
    policy: HandlerUnfinishedPolicy,
) -> None:
    @workflow.defn
    class Hasty:
        def __init__(self) -> None:
            self.begun = False

        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: self.begun)

        @workflow.update(unfinished_policy=policy)
        async def slow(self) -> None:
            self.begun = True
            await workflow.sleep(5)

    run = PocketEngine(Hasty)
    run.task()
    run.update("u-1", "slow")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert names(run.task())[-1] == "CompleteWorkflow None"

    warned = workflow.UnfinishedUpdateHandlersWarning in [one.category for one in caught]
    assert warned == (policy is HandlerUnfinishedPolicy.WARN_AND_ABANDON)


def test_there_is_no_update_info_outside_of_updates() -> None:
    @workflow.defn
    class Asking:
        @workflow.run
        async def run(self) -> str:
            return repr(workflow.current_update_info())

    assert names(PocketEngine(Asking).task()) == ["CompleteWorkflow None"]


def test_what_cannot_be_an_update_is_refused_with_the_reason() -> None:
    def handler(self: object, number: int) -> None: ...

    async def validator(self: object, number: int) -> None: ...

    def other(self: object) -> None: ...

    update = workflow.update(handler)
    with pytest.raises(TypeError, match="must not be async"):
        update.validator(validator)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must take what the update"):
        update.validator(other)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no name"):
        workflow.update(name="x", dynamic=True)(handler)
    with pytest.raises(TypeError, match="must take a name and a sequence"):
        workflow.update(dynamic=True)(handler)
    with pytest.raises(TypeError, match="two updates named 'x'"):

        @workflow.defn
        class Twice:
            @workflow.run
            async def run(self) -> None: ...

            @workflow.update(name="x")
            def one(self) -> None: ...

            @workflow.update(name="x")
            def two(self) -> None: ...


def test_updates_that_came_with_the_start_go_before_the_code() -> None:
    @workflow.defn
    class Early:
        def __init__(self) -> None:
            self.sum = 0

        @workflow.update
        def add(self, number: int) -> int:
            self.sum += number
            return self.sum

        @workflow.run
        async def run(self) -> int:
            workflow.set_update_handler("late", lambda: "set by the code")
            return self.sum

    run = PocketEngine(Early)
    run.update("u-1", "late")
    run.update("u-2", "add", 1)
    run.update("u-3", "nobody's")
    run.update("u-4", "add", 2)
    commands = names(run.task())

    assert commands[-1] == "CompleteWorkflow 3"
    assert value_of(run.outcomes["u-1"].result) == "set by the code"
    assert value_of(run.outcomes["u-4"].result) == 3
    assert list(run.rejected) == ["u-3"]
    same_on_replay(run)


def test_an_update_answers_although_the_run_ends_first() -> None:
    """Its handler is ready when the code returns: the answer goes before the end, and nothing else
    of what runs then goes anywhere."""

    @workflow.defn
    class Last:
        def __init__(self) -> None:
            self.asked = False
            self.answer: asyncio.Future[str] = asyncio.Future()

        @workflow.update
        async def ask(self) -> str:
            self.asked = True
            answer = await self.answer
            workflow.upsert_memo({"late": answer})
            return answer

        @workflow.run
        async def run(self) -> str:
            await workflow.wait_condition(lambda: self.asked)
            self.answer.set_result("yes")
            return "done"

    run = PocketEngine(Last)
    run.task()
    run.update("u-1", "ask")
    commands = names(run.task())

    assert [one.split()[0] for one in commands] == [
        "AcceptUpdate",
        "CompleteUpdate",
        "CompleteWorkflow",
    ]
    assert value_of(run.outcomes["u-1"].result) == "yes"
    same_on_replay(run)
