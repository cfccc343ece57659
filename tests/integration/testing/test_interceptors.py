"""Interceptors and plug-ins around the real engine: what is sent at one end is found at the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import perdure.client
import perdure.worker
from perdure import activity, workflow
from perdure.client import (
    AsyncActivityCancelledError,
    CancelWorkflowInput,
    Client,
    ClientConfig,
    CompleteAsyncActivityInput,
    ConnectConfig,
    CountWorkflowsInput,
    DeleteWorkflowInput,
    DescribeWorkflowInput,
    FailAsyncActivityInput,
    FetchWorkflowHistoryEventsInput,
    GetWorkflowResultInput,
    HeartbeatAsyncActivityInput,
    ListWorkflowsInput,
    OutboundInterceptor,
    QueryWorkflowInput,
    ReportCancellationAsyncActivityInput,
    ServiceClient,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    StartWorkflowUpdateWithStartInput,
    TerminateWorkflowInput,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHistory,
)
from perdure.codecs import CompressionCodec
from perdure.common import WorkflowIdConflictPolicy
from perdure.converter import DataConverter, Payload, PayloadCodec
from perdure.errors import ActivityError, ApplicationError
from perdure.plugin import Plugin, SimplePlugin
from perdure.testing import WorkflowEnvironment
from perdure.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Replayer,
    StartActivityInput,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

QUEUE = "queue"
SOON = timedelta(minutes=1)


class _Turning(PayloadCodec):
    """Makes of every payload something else: headers must pass it as they are."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload("turned", one.data[::-1], {"was": one.encoding.encode()}) for one in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(one.metadata["was"].decode(), one.data[::-1]) for one in payloads]


def text(word: str) -> Payload:
    return Payload("json/plain", b'"%b"' % word.encode())


class Calls(perdure.client.Interceptor):
    """Notes every call, and sends with each that can carry it where it was made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Calls(next, self)


class _Calls(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, root: Calls) -> None:
        super().__init__(next)
        self._made = root.made

    def _sends(self, input: Any, name: str) -> None:
        self._made.append(name)
        input.headers = {**input.headers, "from": text(name)}

    async def start_workflow(self, input: StartWorkflowInput) -> Any:
        self._sends(input, "start_workflow")
        return await super().start_workflow(input)

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        self._sends(input, "signal_workflow")
        await super().signal_workflow(input)

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        self._sends(input, "query_workflow")
        return await super().query_workflow(input)

    async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> Any:
        self._sends(input, "start_workflow_update")
        return await super().start_workflow_update(input)

    async def start_update_with_start_workflow(
        self, input: StartWorkflowUpdateWithStartInput
    ) -> Any:
        self._sends(input.start_workflow_input, "with_start: start")
        self._sends(input.update_workflow_input, "with_start: update")
        return await super().start_update_with_start_workflow(input)

    async def cancel_workflow(self, input: CancelWorkflowInput) -> None:
        self._made.append(f"cancel_workflow {input.reason}")
        await super().cancel_workflow(input)

    async def terminate_workflow(self, input: TerminateWorkflowInput) -> None:
        self._made.append(f"terminate_workflow {input.reason} {[*input.args]}")
        await super().terminate_workflow(input)

    async def delete_workflow(self, input: DeleteWorkflowInput) -> None:
        self._made.append("delete_workflow")
        await super().delete_workflow(input)

    async def describe_workflow(self, input: DescribeWorkflowInput) -> Any:
        self._made.append("describe_workflow")
        return await super().describe_workflow(input)

    async def get_workflow_result(self, input: GetWorkflowResultInput) -> Any:
        self._made.append("get_workflow_result")
        return await super().get_workflow_result(input)

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:
        self._made.append("fetch_workflow_history_events")
        return super().fetch_workflow_history_events(input)

    def list_workflows(self, input: ListWorkflowsInput) -> Any:
        self._made.append(f"list_workflows {input.workflow_type}")
        return super().list_workflows(input)

    async def count_workflows(self, input: CountWorkflowsInput) -> Any:
        self._made.append("count_workflows")
        return await super().count_workflows(input)

    async def heartbeat_async_activity(self, input: HeartbeatAsyncActivityInput) -> None:
        self._made.append(f"heartbeat_async_activity {[*input.details]}")
        await super().heartbeat_async_activity(input)

    async def complete_async_activity(self, input: CompleteAsyncActivityInput) -> None:
        self._made.append(f"complete_async_activity {input.result}")
        await super().complete_async_activity(input)

    async def fail_async_activity(self, input: FailAsyncActivityInput) -> None:
        self._made.append(f"fail_async_activity {input.error}")
        await super().fail_async_activity(input)

    async def report_cancellation_async_activity(
        self, input: ReportCancellationAsyncActivityInput
    ) -> None:
        self._made.append("report_cancellation_async_activity")
        await super().report_cancellation_async_activity(input)


class Work(perdure.worker.Interceptor):
    """Notes what comes in with its header, and around which activity."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        input.unsafe_extern_functions["see"] = self.see
        return _WorkInbound

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _WorkActivity(next, self)

    def see(self, what: str, headers: Any) -> None:
        sent = headers.get("from")
        self.seen.append(f"{what} {'' if sent is None else sent.data.decode()}".strip())


class _WorkInbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_WorkOutbound(outbound))

    def _see(self, what: str, input: Any) -> None:
        if not workflow.unsafe.is_replaying():
            workflow.extern_functions()["see"](what, input.headers)

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        self._see("execute", input)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        self._see("signal", input)
        await super().handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        workflow.extern_functions()["see"]("query", input.headers)
        return await super().handle_query(input)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        self._see("validate", input)
        super().handle_update_validator(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        self._see("update", input)
        return await super().handle_update_handler(input)


class _WorkOutbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = {**input.headers, "from": text("workflow")}
        return super().start_activity(input)

    def start_local_activity(self, input: Any) -> workflow.ActivityHandle[Any]:
        input.headers = {**input.headers, "from": text("here")}
        return super().start_local_activity(input)

    async def start_child_workflow(self, input: Any) -> workflow.ChildWorkflowHandle[Any, Any]:
        input.headers = {**input.headers, "from": text("parent")}
        return await super().start_child_workflow(input)

    async def signal_child_workflow(self, input: Any) -> None:
        input.headers = {**input.headers, "from": text("parent")}
        await super().signal_child_workflow(input)

    async def signal_external_workflow(self, input: Any) -> None:
        input.headers = {**input.headers, "from": text("stranger")}
        await super().signal_external_workflow(input)


class _WorkActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, root: Work) -> None:
        super().__init__(next)
        self._root = root

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(_WorkActivityOutbound(outbound, self._root))

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        where = "loop" if input.executor is None else "thread"
        self._root.see(f"{activity.info().activity_type} on the {where}", input.headers)
        return await super().execute_activity(input)


class _WorkActivityOutbound(ActivityOutboundInterceptor):
    def __init__(self, next: ActivityOutboundInterceptor, root: Work) -> None:
        super().__init__(next)
        self._root = root

    def heartbeat(self, *details: Any) -> None:
        self._root.see(f"heartbeat {details}", {})
        super().heartbeat(*details)

    def info(self) -> activity.Info:
        self._root.see("info", {})
        return super().info()


@activity.defn
async def fetch(name: str) -> str:
    activity.heartbeat("on the way")
    return f"{name}, {activity.info().headers['from'].data.decode()}"


@activity.defn
def fetch_in_thread(name: str) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return name


@activity.defn
async def elsewhere() -> str:
    activity.raise_complete_async()


@workflow.defn
class Order:
    def __init__(self) -> None:
        self._told: list[str] = []

    @workflow.run
    async def run(self, wanted: int) -> list[str]:
        fetched = await workflow.execute_activity(fetch, "a", start_to_close_timeout=SOON)
        await workflow.execute_activity(fetch_in_thread, "b", start_to_close_timeout=SOON)
        await workflow.execute_local_activity(fetch_in_thread, "c", start_to_close_timeout=SOON)
        await workflow.wait_condition(lambda: len(self._told) >= wanted)
        return [fetched, *self._told]

    @workflow.signal
    def tell(self, what: str) -> None:
        self._told.append(what)

    @workflow.query
    def told(self) -> list[str]:
        return self._told

    @workflow.update
    def add(self, what: str) -> int:
        self._told.append(what)
        return len(self._told)

    @add.validator
    def check(self, what: str) -> None:
        if not what:
            raise ApplicationError("nothing")


@activity.defn
async def fail() -> None:
    raise ApplicationError("no", non_retryable=True)


@workflow.defn
class Failing:
    @workflow.run
    async def run(self) -> str:
        for call in (workflow.execute_activity, workflow.execute_local_activity):
            with suppress(ActivityError):
                await call("fail", start_to_close_timeout=SOON)
        return workflow.info().run_id


@workflow.defn
class Parent:
    @workflow.run
    async def run(self) -> list[str]:
        child = await workflow.start_child_workflow(Order.run, 2, id="child")
        await child.signal(Order.tell, "x")
        await workflow.get_external_workflow_handle_for(Order.run, "child").signal(Order.tell, "y")
        return await child


@workflow.defn
class Outside:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(
            elsewhere, activity_id="a1", start_to_close_timeout=SOON
        )


@asynccontextmanager
async def environment(*interceptors: perdure.client.Interceptor) -> AsyncIterator[Client]:
    codec = DataConverter(payload_codec=_Turning())
    async with await WorkflowEnvironment.start_time_skipping(
        interceptors=interceptors, data_converter=codec
    ) as env:
        yield env.client


def worker(client: Client, *interceptors: perdure.worker.Interceptor, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Order, Outside, Failing, Parent],
        activities=[fetch, fetch_in_thread, elsewhere, fail],
        interceptors=interceptors,
        **options,
    )


async def test_headers_reach_the_other_side() -> None:
    calls, work = Calls(), Work()
    async with environment(calls) as client, worker(client, work):
        handle = await client.start_workflow(Order.run, 3, id="o1", task_queue=QUEUE)
        await handle.signal(Order.tell, "x")
        assert await handle.execute_update(Order.add, "y") == 2
        assert await handle.query(Order.told) == ["x", "y"]
        start = WithStartWorkflowOperation(
            Order.run,
            3,
            id="o1",
            task_queue=QUEUE,
            id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING,
        )
        await client.execute_update_with_start_workflow(
            Order.add, "z", start_workflow_operation=start
        )
        result = await handle.result()
        history = await handle.fetch_history()

    assert result == ['a, "workflow"', "x", "y", "z"]
    assert calls.made == [
        "start_workflow",
        "signal_workflow",
        "start_workflow_update",
        "query_workflow",
        "with_start: start",
        "with_start: update",
        "get_workflow_result",
        "fetch_workflow_history_events",
    ]
    # A set: an engine may ask a query again whose answer it does not have.
    assert set(work.seen) == {
        'execute "start_workflow"',
        'signal "signal_workflow"',
        'validate "start_workflow_update"',
        'update "start_workflow_update"',
        'query "query_workflow"',
        'validate "with_start: update"',
        'update "with_start: update"',
        'fetch on the loop "workflow"',
        "heartbeat ('on the way',)",
        'fetch_in_thread on the thread "workflow"',
        'fetch_in_thread on the thread "here"',
        "info",
    }
    # As they were sent: a codec that had turned them would show here.
    assert history.events[0].attributes["header"] == {"from": text("start_workflow")}
    # On replay the same interceptors see the same history, and do the same.
    codec = DataConverter(payload_codec=_Turning())
    replayer = Replayer(workflows=[Order], data_converter=codec, interceptors=[work])
    await replayer.replay_workflow(history)


async def test_headers_go_from_workflow_to_workflow() -> None:
    work = Work()
    async with environment(Calls()) as client, worker(client, work):
        assert (await client.execute_workflow(Parent.run, id="p", task_queue=QUEUE))[1:] == [
            "x",
            "y",
        ]

    assert {one for one in work.seen if one.startswith(("execute", "signal"))} == {
        'execute "start_workflow"',
        'execute "parent"',
        'signal "parent"',
        'signal "stranger"',
    }


async def test_signal_with_start_and_start_by_update_carry_their_headers() -> None:
    work = Work()
    async with environment(Calls()) as client, worker(client, work):
        await client.execute_workflow(
            Order.run, 1, id="o1", task_queue=QUEUE, start_signal="tell", start_signal_args=["x"]
        )
        start = WithStartWorkflowOperation(
            Order.run,
            1,
            id="o2",
            task_queue=QUEUE,
            id_conflict_policy=WorkflowIdConflictPolicy.FAIL,
        )
        await client.execute_update_with_start_workflow(
            Order.add, "z", start_workflow_operation=start
        )
        await (await start.workflow_handle()).result()

    assert 'execute "start_workflow"' in work.seen
    assert 'signal "start_workflow"' in work.seen
    assert 'execute "with_start: start"' in work.seen
    assert 'update "with_start: update"' in work.seen


async def test_calls_without_headers_pass_too() -> None:
    calls = Calls()
    async with environment(calls) as client:
        first = await client.start_workflow(Order.run, 1, id="o1", task_queue="nobody")
        assert (await first.describe()).id == "o1"
        await first.cancel(reason="enough")
        await first.terminate("a", "b", reason="now")
        await client.count_workflows()
        assert [one.id async for one in client.list_workflows(workflow_type="Order")] == ["o1"]
        await first.delete()

    assert calls.made == [
        "start_workflow",
        "describe_workflow",
        "cancel_workflow enough",
        "terminate_workflow now ['a', 'b']",
        "count_workflows",
        "list_workflows Order",
        "delete_workflow",
    ]


async def test_activities_that_end_elsewhere_pass_too() -> None:
    calls = Calls()
    async with environment(calls) as client, worker(client):
        for number, end in enumerate(["complete", "fail"]):
            workflow_id = f"o{number}"
            handle = await client.start_workflow(Outside.run, id=workflow_id, task_queue=QUEUE)
            outside = client.get_async_activity_handle(
                workflow_id=workflow_id, run_id=None, activity_id="a1"
            )
            await _once_it_is_there(outside, "half")
            if end == "complete":
                await outside.complete("done")
                assert await handle.result() == "done"
            else:
                await outside.fail(ApplicationError("no", non_retryable=True))
                with pytest.raises(WorkflowFailureError):
                    await handle.result()

    noted = [one for one in calls.made if "async" in one]
    assert [one for one in noted if "heartbeat" not in one] == [
        "complete_async_activity done",
        "fail_async_activity no",
    ]
    assert "heartbeat_async_activity ['half']" in noted


async def _once_it_is_there(outside: perdure.client.AsyncActivityHandle, detail: str) -> None:
    """Until its function has ended and left it to us."""
    while True:
        try:
            await outside.heartbeat(detail)
        except AsyncActivityCancelledError:
            raise
        except perdure.client.RPCError:
            await asyncio.sleep(0)
        else:
            return


class Both(Calls, Work):
    """Of the client, and of its workers."""

    def __init__(self) -> None:
        Calls.__init__(self)
        Work.__init__(self)


async def test_an_interceptor_of_the_client_that_is_for_workers_too_serves_its_workers() -> None:
    both, own = Both(), Work()
    own.seen = both.seen
    async with environment(both) as client, worker(client, own):
        assert client.config()["interceptors"] == (both,)
        await client.execute_workflow(Order.run, 0, id="o1", task_queue=QUEUE)

    assert both.seen.count('execute "start_workflow"') == 2
    assert "start_workflow" in both.made


class Refusing(perdure.worker.Interceptor):
    """Activities are not run at all."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                return f"instead of {input.fn.__name__}({', '.join(input.args)})"

        return Inbound(next)


async def test_an_interceptor_may_answer_itself() -> None:
    async with environment() as client, worker(client, Refusing()):
        result = await client.execute_workflow(Order.run, 0, id="o1", task_queue=QUEUE)

    assert result == ["instead of fetch(a)"]


class Elsewhere(perdure.worker.Interceptor):
    """Sync activities run in an executor of its own, with other arguments."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.executor = executor

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        executor = self.executor

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                if input.executor is not None:
                    input.executor, input.fn, input.args = executor, _thread_name, []
                return await super().execute_activity(input)

        return Inbound(next)


threads: list[str] = []


def _thread_name() -> str:
    threads.append(threading.current_thread().name)
    return threads[-1]


async def test_an_interceptor_may_change_what_is_run_and_where() -> None:
    threads.clear()
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        async with environment() as client, worker(client, Elsewhere(executor), Work()):
            await client.execute_workflow(Order.run, 0, id="o1", task_queue=QUEUE)

    assert threads == ["mine_0", "mine_0"]  # an activity and a local one


# --- plug-ins -------------------------------------------------------------------------------------


class Noting(Plugin):
    def __init__(self) -> None:
        self.noted: list[str] = []

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        self.noted.append("configure_client")
        config["identity"] = "by a plug-in"
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        self.noted.append("connect")
        return await next(config)

    def configure_worker(self, config: perdure.worker.WorkerConfig) -> perdure.worker.WorkerConfig:
        self.noted.append("configure_worker")
        config["workflows"] = [*config["workflows"], Order]
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        self.noted.append("run_worker")
        try:
            await next(worker)
        finally:
            self.noted.append("worker has run")


async def test_a_plugin_of_the_client_serves_its_workers() -> None:
    plugin = Noting()
    async with await WorkflowEnvironment.start_time_skipping(plugins=[plugin]) as env:
        client = env.client
        assert client.identity == "by a plug-in"
        async with Worker(client, task_queue=QUEUE, activities=[fetch, fetch_in_thread]) as made:
            assert made.is_running
            handle = await client.start_workflow(Order.run, 1, id="o1", task_queue=QUEUE)
            await handle.terminate()
        assert not made.is_running

    assert plugin.noted == [
        "connect",
        "configure_client",
        "configure_worker",
        "run_worker",
        "worker has run",
    ]


class Quiet(Plugin):
    """Changes nothing."""


async def test_a_plugin_given_twice_is_warned_of() -> None:
    async with await WorkflowEnvironment.start_time_skipping(plugins=[Quiet()]) as env:
        with pytest.warns(UserWarning, match="runs twice"):
            Worker(env.client, task_queue=QUEUE, activities=[fetch], plugins=[Quiet()])


async def test_a_simple_plugin_brings_what_belongs_together() -> None:
    calls, work, running = Calls(), Work(), list[str]()

    @asynccontextmanager
    async def run_context() -> AsyncIterator[None]:
        running.append("in")
        yield
        running.append("out")

    plugin = SimplePlugin(
        "orders",
        data_converter=lambda there: replace(there, payload_codec=CompressionCodec()),
        client_interceptors=[calls],
        workflows=[Order],
        activities=lambda there: [*there, fetch_in_thread],
        worker_interceptors=[work],
        workflow_failure_exception_types=[KeyError],
        run_context=run_context,
    )
    assert plugin.name() == "orders"
    async with await WorkflowEnvironment.start_time_skipping(plugins=[plugin]) as env:
        client = env.client
        assert client.data_converter.payload_codec is not None
        async with Worker(client, task_queue=QUEUE, activities=[fetch]):
            assert await client.execute_workflow(Order.run, 0, id="o1", task_queue=QUEUE)
            history = await client.get_workflow_handle("o1").fetch_history()
        assert running == ["in", "out"]

        replayer = Replayer(workflows=[Outside], plugins=[plugin])
        await replayer.replay_workflow(history)
        results = await replayer.replay_workflows(_all(history))

    assert results.replay_failures == {}
    assert running == ["in", "out"] * 3
    assert "start_workflow" in calls.made
    assert 'execute "start_workflow"' in work.seen


async def _all(*histories: WorkflowHistory) -> AsyncIterator[WorkflowHistory]:
    for one in histories:
        yield one


class Keeping(perdure.worker.Plugin):
    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        raise ApplicationError("not today")


async def test_a_plugin_may_keep_a_worker_from_running() -> None:
    async with environment() as client:
        kept = worker(client, plugins=[Keeping()])
        with pytest.raises(ApplicationError, match="not today"):
            await kept.run()
        await kept.shutdown()

        with pytest.raises(ApplicationError, match="not today"):
            async with worker(client, plugins=[Keeping()]):
                await asyncio.Event().wait()


# --- logs -----------------------------------------------------------------------------------------


async def test_no_value_and_no_header_is_in_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Reliability, invariant 68: no payload in logs."""
    caplog.set_level(logging.DEBUG)
    async with environment(Calls()) as client, worker(client, Work()):
        handle = await client.start_workflow(Order.run, 1, id="o1", task_queue=QUEUE)
        await handle.signal(Order.tell, "secret 4711")
        await handle.result()

    assert "4711" not in caplog.text
    assert "start_workflow" not in caplog.text


async def test_the_workers_own_lines_say_which_attempt_they_are_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with environment() as client, worker(client):
        run_id = await client.execute_workflow(Failing.run, id="f1", task_queue=QUEUE)

    warnings = [one for one in caplog.records if "failed" in one.getMessage()]
    assert [one.getMessage() for one in warnings] == [
        "activity fail failed: ApplicationError: no",
        "local activity fail failed: ApplicationError: no",
    ]
    for one in warnings:
        fields = vars(one)["perdure_activity"]
        assert fields["workflow_id"] == "f1"
        assert fields["workflow_run_id"] == run_id


async def test_a_plugin_sees_all_that_a_worker_can_be_given() -> None:
    seen: list[str] = []

    class Seeing(Plugin):
        def configure_worker(
            self, config: perdure.worker.WorkerConfig
        ) -> perdure.worker.WorkerConfig:
            seen.extend(config)
            config["activities"], config["max_cached_workflows"] = [fetch], 7
            return config

    async with environment() as client:
        made = worker(client, plugins=[Seeing()])

    assert set(inspect.signature(Worker).parameters) == {*seen, "plugins", "tuning"}
    assert made._settings.cached_runs_max == 7
    assert [*made._settings.code.activities.newest] == ["fetch"]
