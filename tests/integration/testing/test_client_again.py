"""Clients made of clients, what workers and replayers are made of, histories of a whole list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from perdure import workflow
from perdure.client import (
    CancelWorkflowInput,
    Client,
    ClientConfig,
    Interceptor,
    OutboundInterceptor,
    RPCError,
    RPCStatusCode,
    ServiceClient,
)
from perdure.plugin import SimplePlugin
from perdure.testing import WorkflowEnvironment
from perdure.worker import Plugin, Replayer, ReplayerConfig, Worker, WorkerConfig

QUEUE = "queue"


@workflow.defn
class Greet:
    @workflow.run
    async def run(self, name: str) -> str:
        return f"Hello, {name}!"


@workflow.defn
class Waiting:
    @workflow.run
    async def run(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env.client


class _Noting(Interceptor):
    def __init__(self) -> None:
        self.cancelled: list[CancelWorkflowInput] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        noting = self

        class Outbound(OutboundInterceptor):
            async def cancel_workflow(self, input: CancelWorkflowInput) -> None:
                noting.cancelled.append(input)
                await super().cancel_workflow(input)

        return Outbound(next)


# --- a client of a client's config -----------------------------------------------------------------


async def test_a_client_of_another_ones_config_shares_its_connection(client: Client) -> None:
    noting = _Noting()
    config = client.config()
    config["interceptors"] = [noting]
    other = Client(**config)
    assert other.config()["service_client"] is client.config()["service_client"]
    assert other.namespace == client.namespace
    async with Worker(other, task_queue=QUEUE, workflows=[Greet]):
        assert await other.execute_workflow(Greet.run, "Ada", id="one", task_queue=QUEUE)
    await other.close()
    # The first one's connection is still open.
    assert await client.get_workflow_handle("one").result() == "Hello, Ada!"


async def test_plugins_change_a_client_that_is_made_of_a_config(client: Client) -> None:
    class Elsewhere(SimplePlugin):
        def configure_client(self, config: ClientConfig) -> ClientConfig:
            config["namespace"] = "elsewhere"
            return super().configure_client(config)

    config = client.config()
    config["plugins"] = [Elsewhere("elsewhere", client_interceptors=[_Noting()])]
    other = Client(**config)
    assert other.namespace == "elsewhere"
    assert [type(one) for one in other.config()["interceptors"]] == [_Noting]
    with pytest.raises(RPCError) as failed:
        await other.start_workflow(Greet.run, "Ada", id="one", task_queue=QUEUE)
    assert failed.value.status is RPCStatusCode.NOT_FOUND


async def test_a_failing_plugin_leaves_no_connection_behind(client: Client) -> None:
    made: list[ServiceClient] = []

    class Failing(SimplePlugin):
        def configure_client(self, config: ClientConfig) -> ClientConfig:
            made.append(config["service_client"])
            raise ValueError("not like this")

    target = client.config()["service_client"].target
    with pytest.raises(ValueError, match="not like this"):
        await Client.connect(target, plugins=[Failing("failing")])
    [connection] = made
    config = client.config()
    config["service_client"] = connection
    with pytest.raises(RPCError, match="closed"):  # gRPC itself would end the process
        Client(**config)


async def test_behind_an_interceptor_a_handle_reaches_only_the_chain_it_started(
    client: Client,
) -> None:
    noting = _Noting()
    config = client.config()
    config["interceptors"] = [noting]
    intercepted = Client(**config)
    first = await intercepted.start_workflow(Waiting.run, id="one", task_queue=QUEUE)
    await client.get_workflow_handle("one").terminate()
    second = await intercepted.start_workflow(Waiting.run, id="one", task_queue=QUEUE)
    with pytest.raises(RPCError) as failed:
        await first.cancel()
    assert failed.value.status is RPCStatusCode.NOT_FOUND
    await second.cancel()
    assert [one.first_execution_run_id for one in noting.cancelled] == [
        first.result_run_id,
        second.result_run_id,
    ]


# --- what workers and replayers are made of --------------------------------------------------------


class _Adding(Plugin):
    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config["task_queue"] = "of the plug-in"
        config["workflows"] = [*config["workflows"], Waiting]
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        config["workflows"] = [*config["workflows"], Waiting]
        return config


async def test_a_worker_says_what_it_is_made_of(client: Client) -> None:
    plain = Worker(client, task_queue=QUEUE, workflows=[Greet]).config()
    assert (plain["client"], plain["task_queue"], plain["workflows"]) == (client, QUEUE, [Greet])
    assert (plain["max_cached_workflows"], plain["plugins"]) == (1000, [])
    changed = Worker(client, task_queue=QUEUE, workflows=[Greet], plugins=[_Adding()]).config()
    assert (changed["task_queue"], changed["workflows"]) == ("of the plug-in", [Greet, Waiting])
    assert changed["plugins"] == [_Adding().name()]


async def test_a_replayer_says_what_it_is_made_of() -> None:
    assert Replayer(workflows=[Greet]).config()["plugins"] == []
    changed = Replayer(workflows=[Greet], plugins=[_Adding()]).config()
    assert (changed["workflows"], changed["namespace"]) == ([Greet, Waiting], "default")
    assert changed["plugins"] == [_Adding().name()]


async def test_what_config_returns_is_the_callers(client: Client) -> None:
    worker = Worker(client, task_queue=QUEUE, workflows=[Greet])
    worker.config()["task_queue"] = "another"
    assert worker.config()["task_queue"] == QUEUE


# --- lists as histories ----------------------------------------------------------------------------


async def test_the_histories_of_a_list_are_those_of_its_runs(client: Client) -> None:
    ids: Sequence[str] = ["one", "two", "three"]
    async with Worker(client, task_queue=QUEUE, workflows=[Greet]):
        run_ids = set()
        for workflow_id in ids:
            handle = await client.start_workflow(Greet.run, "Ada", id=workflow_id, task_queue=QUEUE)
            await handle.result()
            run_ids.add(handle.result_run_id)
    found = client.list_workflows("WorkflowType = 'Greet'", page_size=2)
    histories = [history async for history in found.map_histories()]
    assert {history.workflow_id for history in histories} == set(ids)
    assert {history.run_id for history in histories} == run_ids
    results = await Replayer(workflows=[Greet]).replay_workflows(
        client.list_workflows(limit=2).map_histories()
    )
    assert results.replay_failures == {}
