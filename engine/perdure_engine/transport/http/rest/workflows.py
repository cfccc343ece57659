"""`/workflows`: start, list, look, ask, tell, end."""

from __future__ import annotations

from urllib.parse import quote

from perdure_engine.core import intents, replies
from perdure_engine.core.ids import uuid_text
from perdure_engine.frontend.checks import uuid_bytes_or_none
from perdure_engine.frontend.handlers.cancel_workflow import cancel_workflow
from perdure_engine.frontend.handlers.describe_workflow import describe_workflow
from perdure_engine.frontend.handlers.get_history import GetHistory, get_history
from perdure_engine.frontend.handlers.get_result import get_result
from perdure_engine.frontend.handlers.list_workflows import (
    list_archived_workflows,
    list_workflows,
)
from perdure_engine.frontend.handlers.query_workflow import query_workflow
from perdure_engine.frontend.handlers.signal_workflow import signal_workflow
from perdure_engine.frontend.handlers.start_workflow import start_workflow
from perdure_engine.frontend.handlers.terminate_workflow import terminate_workflow
from perdure_engine.frontend.handlers.update_workflow import update_workflow
from perdure_engine.ports.archive import ArchivedRun
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.transport.grpc.convert import archived
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.grpc.convert.replies import row_message
from perdure_engine.transport.http.rest.bodies import workflows as bodies
from perdure_engine.transport.http.rest.convert import descriptions, payloads
from perdure_engine.transport.http.rest.convert import workflows as convert
from perdure_engine.transport.http.rest.convert.messages import event_body
from perdure_engine.transport.http.rest.convert.times import to_ms
from perdure_engine.transport.http.rest.convert.tokens import page_token, page_token_text
from perdure_engine.transport.http.rest.operations import Answer, Call, Operation, Query

NAMES = {"input": "args"}


async def _start(call: Call[Query, bodies.StartWorkflow]) -> Answer:
    intent = convert.start_workflow(call.body, call.namespace_id, call.request_id())
    begun = await start_workflow(call.frontend, intent)
    assert isinstance(begun, replies.Started)
    body = bodies.WorkflowStarted(
        workflow_id=intent.workflow_id, run_id=uuid_text(begun.run_id), started=begun.started
    )
    headers = {"location": f"/workflows/{quote(intent.workflow_id, safe='')}"}
    return Answer(201 if begun.started else 200, body, headers)


async def _list(call: Call[bodies.ListQuery, None]) -> Answer:
    query = call.query
    list_, message = list_workflows, row_message
    if query.archived:
        list_, message = list_archived_workflows, archived.archived_row_message
    found = await list_(
        call.frontend,
        VisibilityFilter(call.namespace_id),
        query.limit,
        page_token(query.page_token),
        query.query,
    )
    rows = [descriptions.info_body(message(row)) for row in found.rows]
    following = page_token_text(found.next_page_token)
    return Answer(body=bodies.WorkflowList(workflows=rows, next_page_token=following))


async def _describe(call: Call[bodies.RunQuery, None]) -> Answer:
    intent = intents.DescribeWorkflow(
        namespace_id=call.namespace_id,
        workflow_id=call.path["workflow_id"],
        run_id=uuid_bytes_or_none("run_id", call.query.run_id),
    )
    told = await describe_workflow(call.frontend, intent)
    assert isinstance(told, replies.Description | ArchivedRun)
    return Answer(body=descriptions.description_body(archived.described(told)))


async def _history(call: Call[bodies.HistoryQuery, None]) -> Answer:
    query = call.query
    request = GetHistory(
        namespace_id=call.namespace_id,
        workflow_id=call.path["workflow_id"],
        run_id=uuid_bytes_or_none("run_id", query.run_id),
        page_size=query.limit,
        page_token=page_token(query.page_token),
        wait_new_event=query.wait,
        timeout_ms=0,
    )
    page = await get_history(call.frontend, request)
    messages = [event_message(event) for event in page.events]
    events = [event_body(one) for one in messages or archived.archived_events(page.archived)]
    following = page_token_text(page.next_page_token)
    return Answer(body=bodies.History(events=events, next_page_token=following))


async def _result(call: Call[bodies.ResultQuery, None]) -> Answer:
    wait = intents.WaitResult(
        namespace_id=call.namespace_id,
        workflow_id=call.path["workflow_id"],
        run_id=uuid_bytes_or_none("run_id", call.query.run_id),
    )
    told = await get_result(call.frontend, wait, to_ms(call.query.timeout))
    closed = None if told is None else archived.closed(told)
    return Answer(body=descriptions.result_body(closed))


async def _signal(call: Call[Query, bodies.Signal]) -> Answer:
    intent = convert.signal_workflow(
        call.body,
        call.path["workflow_id"],
        call.path["signal_name"],
        call.namespace_id,
        call.request_id(),
    )
    await signal_workflow(call.frontend, intent)
    return Answer(204)


async def _query(call: Call[Query, bodies.WorkflowQuery]) -> Answer:
    intent = convert.query_workflow(
        call.body, call.path["workflow_id"], call.path["query_name"], call.namespace_id
    )
    answer = await query_workflow(call.frontend, intent)
    assert isinstance(answer, replies.QueryAnswer)
    return Answer(body=bodies.QueryResult(result=payloads.result_of(answer.result)))


async def _update(call: Call[Query, bodies.Update]) -> Answer:
    body = call.body
    update_id = body.update_id or call.idempotency_key or uuid_text(call.request_id())
    intent = convert.update_workflow(
        body, call.path["workflow_id"], call.path["update_name"], call.namespace_id, update_id
    )
    told = await update_workflow(call.frontend, intent, to_ms(body.timeout))
    return Answer(body=descriptions.update_body(told))


async def _cancel(call: Call[Query, bodies.Ending]) -> Answer:
    await cancel_workflow(call.frontend, _ending(intents.CancelWorkflow, call))
    return Answer(204)


async def _terminate(call: Call[Query, bodies.Ending]) -> Answer:
    await terminate_workflow(call.frontend, _ending(intents.TerminateWorkflow, call))
    return Answer(204)


def _ending(kind: type[convert.EndingT], call: Call[Query, bodies.Ending]) -> convert.EndingT:
    return convert.ending(
        kind, call.body, call.path["workflow_id"], call.namespace_id, call.request_id()
    )


OPERATIONS = (
    Operation(
        method="POST",
        path="/workflows",
        name="start_workflow",
        summary="Start a workflow. 200 and not 201: a run that was there is meant.",
        perform=_start,
        body=bodies.StartWorkflow,
        example={
            "workflow_id": "order-1",
            "workflow_type": "Order",
            "task_queue": "orders",
            "args": [{"item": "book", "count": 1}],
        },
        answers={201: bodies.WorkflowStarted, 200: bodies.WorkflowStarted},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="GET",
        path="/workflows",
        name="list_workflows",
        summary="Runs, newest start first unless the filter says otherwise. Never stale.",
        perform=_list,
        query=bodies.ListQuery,
        answers={200: bodies.WorkflowList},
    ),
    Operation(
        method="POST",
        path="/workflows/{workflow_id}:cancel",
        name="cancel_workflow",
        summary="Ask a run to end. It may clean up.",
        perform=_cancel,
        body=bodies.Ending,
        body_required=False,
        answers={204: None},
        idempotent=True,
    ),
    Operation(
        method="POST",
        path="/workflows/{workflow_id}:terminate",
        name="terminate_workflow",
        summary="End a run at once, without its code.",
        perform=_terminate,
        body=bodies.Ending,
        body_required=False,
        answers={204: None},
        idempotent=True,
    ),
    Operation(
        method="GET",
        path="/workflows/{workflow_id}",
        name="describe_workflow",
        summary="What a run is doing now.",
        perform=_describe,
        query=bodies.RunQuery,
        answers={200: bodies.WorkflowDescription},
    ),
    Operation(
        method="GET",
        path="/workflows/{workflow_id}/history",
        name="get_history",
        summary="The events of a run, in pages. `perdure.worker.Replayer` reads them as they are.",
        perform=_history,
        query=bodies.HistoryQuery,
        answers={200: bodies.History},
        waits=True,
    ),
    Operation(
        method="GET",
        path="/workflows/{workflow_id}/result",
        name="get_result",
        summary="Wait until a run has closed, for a while.",
        perform=_result,
        query=bodies.ResultQuery,
        answers={200: bodies.WorkflowResult},
        waits=True,
    ),
    Operation(
        method="POST",
        path="/workflows/{workflow_id}/signals/{signal_name}",
        name="signal_workflow",
        summary="Send a signal. It is saved when this is answered.",
        perform=_signal,
        body=bodies.Signal,
        body_required=False,
        answers={204: None},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="POST",
        path="/workflows/{workflow_id}/queries/{query_name}",
        name="query_workflow",
        summary="Ask a worker about a run's state. Changes nothing.",
        perform=_query,
        body=bodies.WorkflowQuery,
        body_required=False,
        answers={200: bodies.QueryResult},
        waits=True,
        names={"query_type": "query_name"},
    ),
    Operation(
        method="POST",
        path="/workflows/{workflow_id}/updates/{update_name}",
        name="update_workflow",
        summary="Update a run, once per update id, and wait for the stage.",
        perform=_update,
        body=bodies.Update,
        body_required=False,
        answers={200: bodies.UpdateState},
        idempotent=True,
        waits=True,
    ),
)
