"""The views for people: a promise, so their columns are written down here a second time."""

from __future__ import annotations

import enum
from typing import LiteralString

import msgspec
import psycopg
import pytest
from tests.conformance.jobs import job_row, schedule_row, slot_row
from tests.conformance.owner import START_US, Owner

from perdure_engine.core.audit import Action, Entry, Head, append
from perdure_engine.core.deployments import register, set_current, set_ramping
from perdure_engine.core.intents import ResetType
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.model import SlotOrigin, SlotOutcome
from perdure_engine.core.tasks import TaskKind, TaskPayload, TaskState
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.ports.batches import BatchJob, BatchOperation, BatchRow, PartState
from perdure_engine.store.sql.store import SqlStore

COLUMNS = {
    "perdure_v1_workflows": [
        *("namespace", "workflow_id", "run_id", "workflow_type", "task_queue", "status"),
        *("start_time", "close_time", "history_events", "history_bytes", "stuck_reason"),
        *("keyword_attributes", "keyword_list_attributes", "text_attributes", "int_attributes"),
        *("double_attributes", "bool_attributes", "datetime_us_attributes", "shard_id"),
    ],
    "perdure_v1_pending_tasks": [
        *("namespace", "workflow_id", "run_id", "queue_no", "task_id", "state", "attempt"),
        *("priority", "shard_id", "kind"),
    ],
    "perdure_v1_pending_activities": [
        *("namespace", "workflow_id", "run_id", "workflow_type", "task_id", "state", "attempt"),
        *("priority", "shard_id"),
    ],
    "perdure_v1_pending_messages": [
        *("namespace", "workflow_id", "run_id", "workflow_type", "task_id", "state", "attempt"),
        "shard_id",
    ],
    "perdure_v1_pending_timers": [
        *("namespace", "workflow_id", "run_id", "kind", "event_id", "due_at", "shard_id"),
    ],
    "perdure_v1_shards": [
        *("shard_id", "range_id", "commit_seq", "node_id", "address", "timer_mark"),
    ],
    "perdure_v1_audit": [
        *("chain", "seq", "logged_at", "namespace", "workflow_id", "run_id", "action", "identity"),
        *("reason", "subject", "before_action", "after_action", "request_id", "namespace_id"),
        "hash",
    ],
    "perdure_v1_batch_operations": [
        *("namespace", "job_id", "state", "operation", "query", "total", "done", "failed"),
        *("parts", "parts_open", "started_at", "stopped_at", "saved_at", "identity", "reason"),
    ],
    "perdure_v1_deployments": [
        *("namespace", "deployment", "current_build_id", "ramping_build_id"),
        *("ramping_percentage", "changed_by", "versions", "conflict_token"),
    ],
    "perdure_v1_jobs": [
        *("namespace", "job_id", "task_name", "queue", "status", "attempt", "priority", "user_id"),
        *("schedule_id", "batch_id", "concurrency_key", "ready", "created_at", "scheduled_at"),
        *("closed_at", "shard_id"),
    ],
    "perdure_v1_schedules": [
        *("namespace", "schedule_id", "user_id", "paused", "next_at", "created_at"),
        *("conflict_token", "shard_id"),
    ],
    "perdure_v1_schedule_slots": [
        *("namespace", "schedule_id", "nominal_at", "origin", "outcome", "acted_at", "target_id"),
        *("detail", "shard_id"),
    ],
    "perdure_v1_nodes": ["node_id", "address", "region", "roles", "lease_end"],
}
NAMESPACE = "00000000-0000-0000-0000-000000000001"
RUN = "00000000-0000-0000-0000-0000000000aa"
PENDING = (
    (TaskKind.WORKFLOW, TaskState.PAUSED),
    (TaskKind.ACTIVITY, TaskState.ASYNC),
    (TaskKind.MESSAGE, TaskState.TO_SEND),
)


def payload(kind: TaskKind) -> bytes:
    """As the store's codec has it at rest."""
    fields = TaskPayload(kind=kind, namespace_id=bytes(16), queue="q", scheduled_event_id=5)
    return msgspec.msgpack.encode(fields)


ROWS = (
    f"insert into visibility values (1, '{RUN}', '{NAMESPACE}', 1, 'order-1', 'Order', 'q', 7,"
    " '2026-01-01', '2026-01-02', 3, 300, '',"
    ' \'{"stuck": "why", "k": {"Region": "eu"}, "i": {"Amount": 5}}\')',
    f"insert into executions values (1, '{RUN}', '{NAMESPACE}', 'order-1', 1, 4, 0, '', 1)",
    f"insert into tasks values (1, 7, 1, '{RUN}', 3, 2, 0, 3, '', 1)",
    f"insert into tasks values (1, 7, 2, '{RUN}', 9, 2, 0, 3, '', 1)",  # gone
    *(
        f"insert into tasks values (1, 8, {number}, '{RUN}', {state.value}, 1, 0, 3,"
        f" '\\x{payload(kind).hex()}', 1)"
        for number, (kind, state) in enumerate(PENDING, 3)
    ),
    # of a version whose payload has more fields than a short header can say
    f"insert into tasks values (1, 9, 9, '{RUN}', 1, 1, 0, 3,"
    f" '\\xdc0010{payload(TaskKind.ACTIVITY)[1:].hex()}', 1)",
    f"insert into timers values (1, '2026-01-03', 1, '{RUN}', 6, 5, 1, '2026-01-03', 1)",
    f"insert into timers values (1, '2026-01-03', 2, '{RUN}', 1, 5, 9, '2026-01-03', 1)",  # gone
)


@pytest.fixture
def connection(database_dsn: str) -> psycopg.Connection:
    connection = psycopg.connect(database_dsn, autocommit=True)
    for row in ROWS:
        connection.execute(row.encode())
    return connection


@pytest.mark.parametrize("view", COLUMNS)
def test_the_columns_of_a_view_never_change(connection: psycopg.Connection, view: str) -> None:
    """A later version may append to this list, and to nothing else of it."""
    with connection:
        found = connection.execute(f"select * from {view}".encode())
        assert found.description is not None
        assert [column.name for column in found.description] == COLUMNS[view]


def test_what_the_views_say(connection: psycopg.Connection) -> None:
    with connection:
        (run,) = connection.execute(
            "select namespace, workflow_id, status, stuck_reason, keyword_attributes ->> 'Region',"
            " (int_attributes ->> 'Amount')::int8, text_attributes from perdure_v1_workflows"
        ).fetchall()
        tasks = connection.execute(
            "select namespace, workflow_id, task_id, state, attempt from perdure_v1_pending_tasks"
        ).fetchall()
        timers = connection.execute(
            "select namespace, workflow_id, kind, event_id from perdure_v1_pending_timers"
        ).fetchall()
        shards = connection.execute("select shard_id from perdure_v1_shards").fetchall()

    assert run == ("default", "order-1", "TimedOut", "why", "eu", 5, None)
    assert sorted(tasks) == [
        ("default", "order-1", 1, "BackingOff", 2),
        ("default", "order-1", 3, "Paused", 1),
        ("default", "order-1", 4, "HandedOver", 1),
        ("default", "order-1", 5, "ToSend", 1),
        ("default", "order-1", 9, "Ready", 1),
    ]
    assert timers == [("default", "order-1", "ActivityRetry", 5)]
    assert sorted(shards) == [(1,), (2,), (3,), (4,)]


def test_what_kind_of_task_it_is(connection: psycopg.Connection) -> None:
    """From the first field of its payload, wherever that begins."""
    with connection:
        kinds = connection.execute(
            "select task_id, kind from perdure_v1_pending_tasks order by task_id"
        ).fetchall()
        activities = connection.execute(
            "select workflow_id, workflow_type, task_id, state from perdure_v1_pending_activities"
        ).fetchall()
        messages = connection.execute(
            "select workflow_id, workflow_type, task_id, state from perdure_v1_pending_messages"
        ).fetchall()

    named = {3: "WorkflowTask", 4: "Activity", 5: "Message", 9: "Activity"}
    assert kinds == [(1, None), *named.items()]
    assert sorted(activities) == [
        ("order-1", "Order", 4, "HandedOver"),
        ("order-1", "Order", 9, "Ready"),
    ]
    assert messages == [("order-1", "Order", 5, "ToSend")]


# ---- what operators did: written by the store


def told(dsn: str, question: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question).fetchall()


ENTRY = Entry(
    time_us=1_800_000_000_000_000,
    action=Action.TERMINATE,
    namespace_id=bytes(15) + b"\x01",
    workflow_id="order-1",
    run_id=bytes.fromhex("aa" * 16),
    identity="op@host",
    reason="tür\0 \\u0000 'zu'",
    request_id=bytes.fromhex("bb" * 16),
    before="RUNNING",
    after="TERMINATED",
)


async def test_the_audit_log_says_who_and_why_also_with_what_no_database_holds(
    store: SqlStore, database_dsn: str
) -> None:
    row, _ = append(Head(3), ENTRY)
    await store.append_audit(row)

    found = told(
        database_dsn,
        "select chain, seq, namespace, workflow_id, replace(run_id::text, '-', ''), action, identity,"
        " reason, before_action, after_action, replace(request_id::text, '-', ''), hash"
        " from perdure_v1_audit",
    )
    assert found == [
        (
            *(3, 1, "default", "order-1", "aa" * 16, "workflow.terminate", "op@host"),
            *("tür\ufffd \\u0000 'zu'", "RUNNING", "TERMINATED", "bb" * 16, row.hash),
        )
    ]
    assert await store.load_audit(3, 0, 9) == [row], "the log itself has it as it was said"


async def test_rows_of_before_are_shown_without_what_only_their_bytes_say(
    store: SqlStore, database_dsn: str
) -> None:
    row, _ = append(Head(3), ENTRY)
    await store.append_audit(row)
    with psycopg.connect(database_dsn) as connection:
        connection.execute("update audit set readable = null")

    found = told(database_dsn, "select action, identity, run_id from perdure_v1_audit")
    assert found == [("workflow.terminate", None, None)]


async def test_a_batch_operation_is_shown_as_far_as_it_is(
    store: SqlStore, database_dsn: str
) -> None:
    job = BatchJob(
        operation=BatchOperation.RESET,
        query="WorkflowType = 'Order'",
        reason="a bug",
        identity="op@host",
        rps=7,
        total=12,
        body_hash=b"12345678",
        reset_type=ResetType.LAST_WORKFLOW_TASK,
    )
    batch = BatchRow(ENTRY.namespace_id, "job-1", ENTRY.time_us, None, job)
    first, head = append(Head(0), ENTRY)
    second, _ = append(head, ENTRY)
    assert await store.start_batch(batch, first)
    question: LiteralString = (
        "select namespace, job_id, state, operation, query, total, done, failed, parts_open,"
        " identity, reason from perdure_v1_batch_operations"
    )
    said = ("RESET", "WorkflowType = 'Order'", 12)
    assert told(database_dsn, question) == [
        ("default", "job-1", "Running", *said, 0, 0, 4, "op@host", "a bug")
    ]
    for part in await store.load_batch_parts(batch.namespace_id, "job-1"):
        assert await store.save_batch_part(part._replace(state=PartState.CLOSED, done=2, failed=1))
    assert told(database_dsn, question) == [
        ("default", "job-1", "Completed", *said, 8, 4, 0, "op@host", "a bug")
    ]
    assert await store.stop_batch(batch._replace(stopped_us=ENTRY.time_us + 1), second)
    assert [row[2] for row in told(database_dsn, question)] == ["Stopped"]


async def test_a_deployment_is_shown_with_its_routing(store: SqlStore, database_dsn: str) -> None:
    registry = Deployments(store)
    namespace_id = ENTRY.namespace_id
    for build_id in ("1", "2"):
        await registry.seen(namespace_id, "shop", build_id, "orders", 1)
    await registry.change(namespace_id, "shop", lambda found: set_current(found, "1", 5, "op@host"))
    await registry.change(
        namespace_id, "shop", lambda found: set_ramping(found, "2", 1_250, 6, "op@host")
    )
    await registry.change(
        namespace_id, "shop", lambda found: register(found, "2", "cards", 7), new=True
    )

    (found,) = told(
        database_dsn,
        "select namespace, deployment, current_build_id, ramping_build_id, ramping_percentage::float8,"
        " changed_by, versions, conflict_token from perdure_v1_deployments",
    )
    versions = [
        {"build_id": "1", "task_queues": ["orders"], "retired": False},
        {"build_id": "2", "task_queues": ["orders", "cards"], "retired": False},
    ]
    assert found == ("default", "shop", "1", "2", 12.5, "op@host", versions, 5)


async def test_jobs_and_schedules_are_shown_in_words(store: SqlStore, database_dsn: str) -> None:
    """What a number means stands in the model, and a second time in the views."""
    owner = await Owner.take(store, [1])
    await owner.commit(
        owner.batch(
            job_runs=[
                job_row(
                    status=status, user_id="anna", task_id=9 if status is JobStatus.PENDING else 0
                )
                for status in JobStatus
            ],
            schedules=[schedule_row("daily", paused=True), schedule_row("gone", gone=True)],
            schedule_slots=[
                slot_row("daily", START_US + outcome, origin=origin, outcome=outcome)
                for outcome in SlotOutcome
                for origin in SlotOrigin
            ],
        )
    )

    def word(member: enum.Enum) -> str:
        return member.name.title().replace("_", "")

    jobs = told(
        database_dsn,
        "select namespace, task_name, user_id, status, ready from perdure_v1_jobs order by status",
    )
    assert jobs == sorted(
        ("default", "send_email", "anna", word(status), status is JobStatus.PENDING)
        for status in JobStatus
    )
    assert told(database_dsn, "select schedule_id, paused from perdure_v1_schedules") == [
        ("daily", True)
    ]
    slots = told(database_dsn, "select outcome, origin, target_id from perdure_v1_schedule_slots")
    assert sorted(map(str, slots)) == sorted(
        str((word(outcome), word(origin), "job"))
        for outcome in SlotOutcome
        for origin in SlotOrigin
    )
