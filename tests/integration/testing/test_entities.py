"""Entities on a whole engine: exclusive for each key, in parallel for all, and no call lost or done
twice when runs turn over or callers repeat themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.client import Client, WorkflowUpdateFailedError, WorkflowUpdateStage
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter
from perdure.errors import (
    ApplicationError,
    RPCError,
    WorkflowQueryFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer, Worker

QUEUE = "accounts"
LIMIT = timedelta(seconds=30)
SOON = timedelta(seconds=10)


class Gate:
    """An activity waits here until the test lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()


GATES: list[Gate] = []


@activity.defn
async def pass_gate() -> None:
    gate = GATES[-1]
    gate.entered.set()
    await gate.opened.wait()


@activity.defn
async def add_one(n: int) -> int:
    return n + 1


@workflow.entity(calls_per_run=6)
class Account:
    balance: int
    log: list[str]

    def __init__(self) -> None:
        self.balance = 0
        self.log = []

    @workflow.entity_handler
    def deposit(self, amount: int, note: str = "") -> int:
        self.balance += amount
        self.log.append(note)
        return self.balance

    @workflow.entity_handler
    async def increase(self) -> int:
        """Reads, waits, writes: what came in between would be lost."""
        self.balance = await workflow.execute_activity(
            add_one, self.balance, start_to_close_timeout=SOON
        )
        return self.balance

    @workflow.entity_handler
    async def by_all_means(self) -> list[int]:
        """What a workflow may do, a handler may."""
        local = await workflow.execute_local_activity(
            add_one, self.balance, start_to_close_timeout=SOON
        )
        many = await workflow.map(add_one, range(5), start_to_close_timeout=SOON)
        async with workflow.saga() as saga:
            saga.add(workflow.sleep, 0)
            try:
                async with asyncio.timeout(60):
                    await workflow.wait_condition(lambda: False)
            except TimeoutError:
                self.log.append("too late")
        self.balance = local + sum(many.values)
        return [local, *many.values]

    @workflow.entity_handler
    def bump(self) -> int:
        self.balance += 1
        return self.balance

    @workflow.entity_handler
    async def withdraw(self, amount: int) -> int:
        self.balance -= amount
        await workflow.execute_activity(pass_gate, start_to_close_timeout=SOON)
        if self.balance < 0:
            raise ApplicationError(f"{-self.balance} is missing", type="Poor")
        return self.balance

    @workflow.entity_handler
    async def sleep(self, days: int) -> None:
        await workflow.sleep(timedelta(days=days))
        self.log.append(f"slept {days} days")

    @workflow.entity_reader
    def total(self) -> int:
        return self.balance

    @workflow.entity_reader
    def notes(self) -> list[str]:
        return self.log

    @workflow.entity_reader
    def name(self) -> str:
        return workflow.entity_key()

    @workflow.entity_reader
    def share(self, of: int) -> float:
        return self.balance / of


def worker(client: Client) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Account], activities=[pass_gate, add_one])


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        worker(env.client),
    ):
        yield env.client


@pytest.fixture
def gate() -> Gate:
    GATES.append(Gate())
    return GATES[-1]


async def test_what_one_does_with_a_key(client: Client) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)

    assert await account.call(Account.deposit, 5) == 5
    assert await account.call(Account.deposit, 2, note="second") == 7
    await account.tell(Account.deposit, amount=1, note="told")
    assert await account.call("deposit", 1) == 9
    assert await account.read(Account.total) == await account.read("total") == 9
    assert await account.read(Account.notes) == ["", "second", "told", ""]
    assert await account.read(Account.name) == account.key == "ada"
    assert account.workflow_id == "Account/ada"
    by_name = client.entity("Account", "ada", task_queue=QUEUE)
    assert await by_name.call("deposit", 1) == await by_name.read("total") == 10
    with pytest.raises(TypeError, match="travel by position: its class is not known here"):
        await by_name.call("deposit", amount=1)
    with pytest.raises(TypeError, match="no handler 'total'; known: bump, by_all_means, deposit, "):
        await account.call("total")
    with pytest.raises(TypeError, match="not a handler of an entity"):
        await account.call(Account.total)
    with pytest.raises(ValueError, match="an entity's key must not be empty"):
        client.entity(Account, "", task_queue=QUEUE)
    with pytest.raises(TypeError, match="is not an entity"):
        client.entity(Gate, "ada", task_queue=QUEUE)
    with pytest.raises(ValueError, match="the arguments have 40003 bytes"):
        await account.tell(Account.deposit, 1, "x" * 40_000)


async def test_a_key_that_does_not_exist_is_read_fresh_and_none_begins(client: Client) -> None:
    account = client.entity(Account, "nobody", task_queue=QUEUE)

    assert await account.read(Account.total) == 0
    assert await account.read(Account.name) == "nobody"
    with pytest.raises(WorkflowQueryFailedError, match="division by zero"):
        await account.read(Account.share, 0)
    with pytest.raises(RPCError, match="does not exist"):
        await client.entity("Account", "nobody", task_queue=QUEUE).read("total")
    await account.destroy()
    assert (await client.count_workflows()).count == 0


async def test_a_handler_that_raises_is_its_callers_and_readers_never_saw_it(
    client: Client, gate: Gate
) -> None:
    """A reader is answered while the handler waits, of what was committed before it."""
    account = client.entity(Account, "ada", task_queue=QUEUE)
    await account.call(Account.deposit, 5)
    withdrawing = asyncio.ensure_future(account.call(Account.withdraw, 7))
    async with asyncio.timeout(30):
        await gate.entered.wait()
        assert await account.read(Account.total) == 5
        gate.opened.set()

    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await withdrawing

    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, failed.value.cause.message) == ("Poor", "2 is missing")
    assert await account.read(Account.total) == 5


async def test_a_call_that_takes_too_long_goes_on(client: Client, gate: Gate) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)
    await account.call(Account.deposit, 5)
    once = account.with_options(id="w-1", rpc_timeout=timedelta(milliseconds=200))

    with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
        await once.call(Account.withdraw, 3)
    gate.opened.set()

    assert await account.with_options(id="w-1").call(Account.withdraw, 3) == 2
    assert await account.read(Account.total) == 2


async def test_calls_of_a_key_are_exclusive_and_keys_are_apart(client: Client) -> None:
    """Invariant: a read, a wait and a write of one handler have no other one between them. Keys do
    not wait for each other, and none loses a call when its run turns over (after 6 calls, or 12)."""
    keys = [client.entity(Account, f"k-{number}", task_queue=QUEUE) for number in range(10)]

    answers = await asyncio.gather(
        *(account.call(Account.increase) for _ in range(30) for account in keys)
    )

    for index, account in enumerate(keys):
        assert sorted(answers[index :: len(keys)]) == list(range(1, 31))
        assert await account.read(Account.total) == 30
    runs = await client.count_workflows("WorkflowType = 'Account'")
    assert runs.count >= 2 * len(keys)


async def test_a_key_waits_for_no_other(client: Client, gate: Gate) -> None:
    busy = client.entity(Account, "busy", task_queue=QUEUE)
    await busy.call(Account.deposit, 5)
    withdrawing = asyncio.ensure_future(busy.call(Account.withdraw, 1))
    async with asyncio.timeout(30):
        await gate.entered.wait()
        assert await client.entity(Account, "other", task_queue=QUEUE).call(Account.increase) == 1
        assert not withdrawing.done()
        gate.opened.set()
        assert await withdrawing == 4


async def test_one_callers_calls_keep_their_order_across_turns(client: Client) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)

    for number in range(50):
        if number % 2:
            await account.tell(Account.deposit, 1, str(number))
        else:
            await account.call(Account.deposit, 1, str(number))

    # A call is behind all that was told before.
    assert await account.call(Account.deposit, 0, "last") == 50
    assert await account.read(Account.notes) == [*map(str, range(50)), "last"]
    run = await client.get_workflow_handle(account.workflow_id).describe()
    assert run.history_length < 12 * 6


async def test_a_call_is_done_once_for_its_id_across_turns_and_clients(client: Client) -> None:
    """Invariant: once per request id, whichever run is asked."""
    account = client.entity(Account, "ada", task_queue=QUEUE)
    once = account.with_options(id="order-17")

    assert await asyncio.gather(*(once.call(Account.deposit, 5) for _ in range(3))) == [5, 5, 5]
    for _ in range(45):
        await account.call(Account.deposit, 1)

    assert await once.call(Account.deposit, 5) == 5
    await once.tell(Account.deposit, 5)
    assert await account.call(Account.deposit, 0) == 50


async def test_a_destroyed_key_is_as_if_it_had_never_been(client: Client) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)
    await account.call(Account.deposit, 5)

    await account.destroy()
    await account.destroy()

    assert await account.read(Account.total) == 0
    assert (await client.get_workflow_handle(account.workflow_id).describe()).status.name == (
        "COMPLETED"
    )
    assert await account.call(Account.deposit, 1) == 1


async def test_calls_that_race_with_the_end_are_all_done(client: Client) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)

    answers = await asyncio.gather(
        *(account.call(Account.deposit, 1) for _ in range(20)),
        *(account.destroy() for _ in range(4)),
        *(account.call(Account.deposit, 1) for _ in range(20)),
    )

    counted = [one for one in answers if one is not None]
    assert len(counted) == 40
    assert await account.read(Account.total) <= 40


async def test_a_cancelled_run_gives_the_handler_up_and_keeps_the_key(
    client: Client, gate: Gate
) -> None:
    account = client.entity(Account, "ada", task_queue=QUEUE)
    await account.call(Account.deposit, 5)
    withdrawing = asyncio.ensure_future(account.call(Account.withdraw, 1))
    async with asyncio.timeout(30):
        await gate.entered.wait()
        await client.get_workflow_handle(account.workflow_id).cancel(reason="stuck")
        with pytest.raises(WorkflowUpdateFailedError):
            await withdrawing
        assert await account.call(Account.deposit, 1) == 6
        gate.opened.set()


async def test_told_before_any_worker_runs(gate: Gate) -> None:
    """Invariant: admission is saved; a worker may come later."""
    async with await WorkflowEnvironment.start_time_skipping() as env:
        account = env.client.entity(Account, "ada", task_queue=QUEUE)
        for number in range(5):
            await account.tell(Account.deposit, 1, str(number))
        async with worker(env.client):
            assert await account.call(Account.deposit, 0, "last") == 5
            assert await account.read(Account.notes) == ["0", "1", "2", "3", "4", "last"]


async def test_a_handler_that_sleeps_for_a_month() -> None:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        worker(env.client),
    ):
        account = env.client.entity(Account, "ada", task_queue=QUEUE)
        await account.tell(Account.sleep, 30)
        behind = asyncio.ensure_future(account.call(Account.deposit, 1))
        await env.sleep(timedelta(days=31))
        assert await behind == 1
        assert await account.read(Account.notes) == ["slept 30 days", ""]


async def test_a_handler_may_do_what_a_workflow_may() -> None:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        worker(env.client),
    ):
        account = env.client.entity(Account, "ada", task_queue=QUEUE)
        await account.call(Account.deposit, 5)
        once = account.with_options(id="all")
        await once.tell(Account.by_all_means)
        await account.tell(Account.bump)
        await env.sleep(timedelta(minutes=2))
        assert await once.call(Account.by_all_means) == [6, 1, 2, 3, 4, 5]
        assert await account.read(Account.total) == 6 + 15 + 1
        assert await account.read(Account.notes) == ["", "too late"]
        history = await env.client.get_workflow_handle(account.workflow_id).fetch_history()

    await Replayer(workflows=[Account]).replay_workflow(history)


async def test_an_encrypted_key_turns_over_replays_and_is_asked_twice() -> None:
    """Encrypting the same arguments again makes other bytes: the id still names one call."""
    codec = EncryptionCodec(KeyRing("k", {"k": b"k" * 32}))
    converter = DataConverter(payload_codec=codec)
    async with (
        await WorkflowEnvironment.start_time_skipping(data_converter=converter) as env,
        worker(env.client),
    ):
        client = env.client
        account = client.entity(Account, "ada", task_queue=QUEUE)
        once = account.with_options(id="order-17")
        assert await once.call(Account.deposit, 1, "secret") == 1
        assert await once.call(Account.deposit, 1, "secret") == 1
        await once.tell(Account.deposit, 1, "secret")
        first = await client.get_workflow_handle(account.workflow_id).fetch_history()
        for _ in range(10):
            await account.call(Account.increase)
        history = await client.get_workflow_handle(
            account.workflow_id, run_id=first.run_id
        ).fetch_history()
        assert await account.read(Account.total) == 11
        assert await account.read(Account.notes) == ["secret"]

    assert "secret" not in history.to_json()
    assert history.events[-1].event_type == "WorkflowExecutionContinuedAsNew"
    await Replayer(workflows=[Account], data_converter=converter).replay_workflow(history)


async def test_a_raw_update_of_the_workflow_is_a_call_too(client: Client) -> None:
    """A key is a workflow: what a program in another language would do."""
    account = client.entity(Account, "ada", task_queue=QUEUE)
    await account.call(Account.deposit, 5)
    handle: Any = client.get_workflow_handle(account.workflow_id)

    update = await handle.start_update(
        "deposit", 2, wait_for_stage=WorkflowUpdateStage.ACCEPTED, rpc_timeout=LIMIT
    )

    assert await update.result(rpc_timeout=LIMIT) == 7
    assert await handle.query("total") == 7


async def test_a_thousand_keys(client: Client) -> None:
    keys = [client.entity(Account, f"k-{number}", task_queue=QUEUE) for number in range(1000)]

    answers = await asyncio.gather(*(one.call(Account.deposit, 1) for one in keys for _ in "ab"))

    assert [sorted(answers[index : index + 2]) for index in range(0, 2000, 2)] == [[1, 2]] * 1000


@pytest.mark.parametrize("cached", [0, 1])
async def test_nothing_is_lost_or_done_twice_while_workers_come_and_go(cached: int) -> None:
    """Invariant: an acknowledged call is done exactly once. Every task replays its run from its
    beginning, three workers follow each other, and runs turn over under their callers' hands."""
    async with await WorkflowEnvironment.start_time_skipping() as env:
        keys = [env.client.entity(Account, f"k-{n}", task_queue=QUEUE) for n in range(3)]
        asked = [
            asyncio.ensure_future(key.call(handler))
            for _ in range(20)
            for key in keys
            for handler in (Account.increase, Account.bump)
        ]
        done = iter(asyncio.as_completed(asked))
        for count in (30, 30, len(asked) - 60):
            async with Worker(
                env.client,
                task_queue=QUEUE,
                workflows=[Account],
                activities=[pass_gate, add_one],
                max_cached_workflows=cached,
                graceful_shutdown_timeout=timedelta(),
            ):
                for _ in range(count):
                    await next(done)

        assert sorted(one.result() for one in asked) == sorted([*range(1, 41)] * 3)
