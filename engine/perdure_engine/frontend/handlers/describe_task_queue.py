"""DescribeTaskQueue: what waits in this node's shards, how fast that grows and shrinks, and who asks for it."""

from __future__ import annotations

import msgspec

from perdure_engine.core.tasks import TaskKind
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.history import QueueName


class KindInfo(msgspec.Struct, frozen=True):
    """Rates are tasks a second."""

    backlog_count: int
    backlog_age_ms: int
    pollers: int
    add_rate: float
    dispatch_rate: float


class TaskQueueInfo(msgspec.Struct, frozen=True):
    """`nodes`: how many live, this one included. Calls do not travel between nodes yet, so each tells of its own."""

    workflow: KindInfo
    activity: KindInfo
    job: KindInfo
    node_id: bytes
    nodes: int


def describe_task_queue(frontend: Frontend, namespace_id: bytes, queue: str) -> TaskQueueInfo:
    checks.name("task_queue", queue)
    return TaskQueueInfo(
        _kind(frontend, namespace_id, queue, TaskKind.WORKFLOW),
        _kind(frontend, namespace_id, queue, TaskKind.ACTIVITY),
        _kind(frontend, namespace_id, queue, TaskKind.JOB),
        frontend.membership.node_id,
        len(frontend.membership.live_nodes()),
    )


def _kind(frontend: Frontend, namespace_id: bytes, queue: str, kind: TaskKind) -> KindInfo:
    facts = frontend.history.queue_facts(QueueName(namespace_id, queue, kind))
    age_us = frontend.db_now_us() - facts.oldest_ready_us if facts.oldest_ready_us else 0
    return KindInfo(
        facts.backlog_count,
        max(age_us, 0) // 1000,
        frontend.matching.describe(namespace_id, queue, kind).pollers,
        facts.add_rate,
        facts.dispatch_rate,
    )
