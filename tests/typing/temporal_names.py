"""What a program written for Temporal's SDK says, and its types here."""

from datetime import timedelta
from typing import assert_type

from perdure import activity, workflow
from perdure.client import Client, WorkflowExecutionStatus
from perdure.common import WorkflowIDConflictPolicy
from perdure.envconfig import ClientConfig
from perdure.exceptions import ApplicationError, ApplicationErrorCategory, TemporalError
from perdure.worker import UnsandboxedWorkflowRunner, Worker


@activity.defn
async def double(number: int) -> int:
    return 2 * number


@workflow.defn(sandboxed=False)
class Twice:
    @workflow.run
    async def run(self, number: int) -> int:
        config = workflow.ActivityConfig(start_to_close_timeout=timedelta(seconds=1))
        return assert_type(await workflow.execute_activity(double, number, **config), int)


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    worker = Worker(
        client,
        task_queue="q",
        workflows=[Twice],
        activities=[double],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activity_task_polls=5,
    )
    assert_type(worker.client, Client)
    handle = await client.start_workflow(
        Twice.run,
        1,
        id="twice",
        task_queue="q",
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        request_eager_start=True,
    )
    assert_type((await handle.describe()).status, WorkflowExecutionStatus | None)
    error: TemporalError = ApplicationError("no", category=ApplicationErrorCategory.BENIGN)
    raise error
