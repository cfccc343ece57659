"""DescribeTaskQueue: what waits on this node, and who asks for it."""

from __future__ import annotations

import msgspec

from perdure_engine.core.tasks import TaskKind
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


class KindInfo(msgspec.Struct, frozen=True):
    backlog_count: int
    backlog_age_ms: int
    pollers: int


class TaskQueueInfo(msgspec.Struct, frozen=True):
    workflow: KindInfo
    activity: KindInfo


def describe_task_queue(frontend: Frontend, namespace_id: bytes, queue: str) -> TaskQueueInfo:
    checks.name("task_queue", queue)
    return TaskQueueInfo(
        _kind(frontend, namespace_id, queue, TaskKind.WORKFLOW),
        _kind(frontend, namespace_id, queue, TaskKind.ACTIVITY),
    )


def _kind(frontend: Frontend, namespace_id: bytes, queue: str, kind: TaskKind) -> KindInfo:
    info = frontend.matching.describe(namespace_id, queue, kind)
    age_us = frontend.db_now_us() - info.oldest_ready_us if info.oldest_ready_us else 0
    return KindInfo(info.backlog_count, max(age_us, 0) // 1000, info.pollers)
