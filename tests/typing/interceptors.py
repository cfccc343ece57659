"""What mypy and pyright make of interceptors and plug-ins. Checked, never run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, assert_type

import perdure.client
import perdure.worker
from perdure import activity, workflow
from perdure.client import (
    Client,
    ClientConfig,
    ConnectConfig,
    CreateScheduleInput,
    JobInfo,
    ListJobsInput,
    OutboundInterceptor,
    ServiceClient,
    StartWorkflowInput,
    UpdateScheduleInput,
    WorkflowHandle,
)
from perdure.contrib.opentelemetry import TracingInterceptor
from perdure.converter import Payload
from perdure.plugin import Plugin, SimplePlugin
from perdure.schedule import Schedule, ScheduleHandle, ScheduleSlot
from perdure.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleUpdateInput,
    Replayer,
    StartActivityInput,
    Worker,
    WorkerConfig,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)


class ClientSide(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        assert_type(input.workflow, str)
        assert_type(input.args, Sequence[Any])
        assert_type(input.headers, Mapping[str, Payload])
        input.headers = {**input.headers, "tenant": Payload("json/plain", b"1")}
        return await super().start_workflow(input)

    def list_jobs(self, input: ListJobsInput) -> AsyncIterator[JobInfo]:
        assert_type(input.limit, int | None)
        input.user_id = "ada"
        return super().list_jobs(input)

    async def create_schedule(self, input: CreateScheduleInput) -> ScheduleHandle:
        assert_type(input.schedule, Schedule)
        return await super().create_schedule(input)

    async def update_schedule(self, input: UpdateScheduleInput) -> Sequence[ScheduleSlot]:
        return await super().update_schedule(input)


class Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(Outbound(outbound))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        assert_type(input.run_fn, Callable[..., Awaitable[Any]])
        return await super().execute_workflow(input)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        assert_type(input.id, str)


class Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        assert_type(input.task_queue, str | None)
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        super().continue_as_new(input)

    def info(self) -> workflow.Info:
        return super().info()


class ActivitySide(ActivityInboundInterceptor):
    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        assert_type(activity.info(), activity.Info)
        return await super().execute_activity(input)


class Both(perdure.client.Interceptor, perdure.worker.Interceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return ClientSide(next)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return ActivitySide(next)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        input.unsafe_extern_functions["now"] = lambda: 1
        return Inbound


class Own(Plugin):
    def configure_client(self, config: ClientConfig) -> ClientConfig:
        config["interceptors"] = [*config["interceptors"], Both()]
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        config.target_host = "elsewhere:7233"
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config["max_cached_workflows"] = 10
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        await next(worker)


async def use(activities: Sequence[Callable[..., Any]]) -> None:
    simple = SimplePlugin(
        "mine",
        client_interceptors=[TracingInterceptor()],
        activities=activities,
        worker_interceptors=lambda there: [*there, Both()],
    )
    client = await Client.connect(interceptors=[Both()], plugins=[Own(), simple])
    assert_type(client.config(), ClientConfig)
    Worker(client, task_queue="q", activities=activities, interceptors=[Both()], plugins=[Own()])
    Replayer(workflows=[int], interceptors=[TracingInterceptor()], plugins=[Own()])
