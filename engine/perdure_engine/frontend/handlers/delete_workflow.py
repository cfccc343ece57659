"""DeleteWorkflow: a run goes, with everything that is saved of it."""

from __future__ import annotations

import asyncio

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import DeleteWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def delete_workflow(frontend: Frontend, delete: DeleteWorkflow) -> asyncio.Future[Reply]:
    """A run that is named by its id and not there is gone: so a call that is repeated has its answer.

    Without a run id it means the current run, and then NOT_FOUND is the answer when there is none.
    """
    checks.workflow_id("workflow_id", delete.workflow_id)
    checks.label("identity", delete.identity)
    checks.prose("reason", delete.reason)
    deleted = frontend.submit(delete)
    return _or_gone(deleted) if delete.run_id else deleted


def _or_gone(deleted: asyncio.Future[Reply]) -> asyncio.Future[Reply]:
    answer: asyncio.Future[Reply] = deleted.get_loop().create_future()

    def pass_on(done: asyncio.Future[Reply]) -> None:
        error = None if done.cancelled() else done.exception()
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
        elif error is None or (isinstance(error, Rejected) and error.code is Code.NOT_FOUND):
            answer.set_result(None)
        else:
            answer.set_exception(error)

    deleted.add_done_callback(pass_on)
    answer.add_done_callback(lambda done: deleted.cancel() if done.cancelled() else None)
    return answer
