"""sdk/examples/newsletter"""

from __future__ import annotations

from datetime import timedelta

from tests.e2e.examples.loading import load_example

from perdure.job import JobStatus
from perdure.testing import WorkflowEnvironment

newsletter = load_example("newsletter/newsletter.py")


async def test_every_reader_gets_one_copy(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    mail = newsletter.Mail(client, down_for=3)
    async with newsletter.make_worker(client, mail):
        await client.jobs.execute(mail.send_issue, newsletter.Issue(7), queue=newsletter.QUEUE)
        sent = await mail.finished

    assert (sent.total, sent.completed, sent.failed) == (8, 8, 0)
    assert sorted(copy.reader for copy in mail.copies.values()) == sorted(newsletter.READERS)


async def test_every_monday(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    mail = newsletter.Mail(client)
    async with newsletter.make_worker(client, mail):
        await newsletter.every_monday(client, "mondays")
        await workflow_environment.sleep(timedelta(days=15))
        sent = [
            one
            async for one in client.jobs.list(schedule_id="mondays")
            if one.status is JobStatus.COMPLETED
        ]

    assert len(sent) == 2
    assert len(mail.copies) == 16
