"""A person has thirty days to decide, and is reminded every day.

    perdure dev                                                  # in one terminal
    python sdk/examples/approval_with_reminder/approval.py       # in another one

The program decides by itself, so that it ends. To decide yourself, start it with `--wait`, and then

    perdure workflow query approval-1 state
    perdure workflow signal approval-1 decide -i '{"by": "Ada", "approved": true}'

Its test, in which thirty days take some milliseconds: tests/e2e/examples/test_approval.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client, WorkflowHandle
from perdure.common import WorkflowIdConflictPolicy
from perdure.worker import Worker

TASK_QUEUE = "approvals"
REMIND_EVERY = timedelta(days=1)
DECIDE_WITHIN = timedelta(days=30)


@dataclass
class Request:
    what: str
    approver: str


@dataclass
class Decision:
    by: str
    approved: bool


@dataclass
class Outcome:
    """`decision` None: nobody has decided in time."""

    decision: Decision | None
    reminders: int


@activity.defn
async def notify(approver: str, text: str) -> None:
    """Where a mail would be sent. `activity.info().idempotency_key` is what its service should get."""
    activity.logger.info("to %s: %s", approver, text)


@workflow.defn
class Approval:
    def __init__(self) -> None:
        self._decision: Decision | None = None
        self._reminders = 0

    @workflow.run
    async def run(self, request: Request) -> Outcome:
        deadline = workflow.now() + DECIDE_WITHIN
        await self._tell(request, f"Please decide: {request.what}")
        while self._decision is None:
            left = deadline - workflow.now()
            if left <= timedelta(0):
                await self._tell(request, f"Too late to decide: {request.what}")
                break
            try:
                await workflow.wait_condition(
                    lambda: self._decision is not None, timeout=min(REMIND_EVERY, left)
                )
            except TimeoutError:
                if workflow.now() < deadline:
                    self._reminders += 1
                    await self._tell(request, f"Reminder {self._reminders}: {request.what}")
        return Outcome(self._decision, self._reminders)

    @workflow.signal
    def decide(self, decision: Decision) -> None:
        """The first decision counts."""
        if self._decision is None:
            self._decision = decision

    @workflow.query
    def state(self) -> Outcome:
        return Outcome(self._decision, self._reminders)

    async def _tell(self, request: Request, text: str) -> None:
        await workflow.execute_activity(
            notify,
            args=[request.approver, text],
            start_to_close_timeout=timedelta(seconds=30),
        )


def make_worker(client: Client) -> Worker:
    return Worker(client, task_queue=TASK_QUEUE, workflows=[Approval], activities=[notify])


async def ask(client: Client, id: str, request: Request) -> WorkflowHandle[Approval, Outcome]:
    """Asking again while it is open asks nothing new."""
    return await client.start_workflow(
        Approval.run,
        request,
        id=id,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING,
    )


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client, make_worker(client):
        handle = await ask(client, "approval-1", Request("a new coffee machine", "Ada"))
        if "--wait" not in sys.argv[1:]:
            await handle.signal(Approval.decide, Decision(by="Ada", approved=True))
        print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())
