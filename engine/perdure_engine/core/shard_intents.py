"""What a shard wants of its own runs: its timers, and what its lease book finds (`core.intents` has all)."""

from __future__ import annotations

import msgspec

from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.tasks import TaskKind, TimerKind
from perdure_engine.core.tokens import TaskToken


class FireTimer(msgspec.Struct, frozen=True, gc=False):
    run_id: bytes
    kind: TimerKind
    reference: int
    wake_us: int
    timer_id: int


class SaveStart(msgspec.Struct, frozen=True, gc=False):
    """Write down a hand-out that nothing else has saved within a second, or that must be saved first."""

    run_id: bytes
    scheduled_event_id: int
    start_no: int


class SaveProgress(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    details: bytes
    version: int = 0  # what progress_version becomes; 0: one more


class PutBackTask(msgspec.Struct, frozen=True, gc=False):
    """The worker that took the task is gone or never got it: ready again, no attempt counted."""

    run_id: bytes
    task_kind: TaskKind
    scheduled_event_id: int
    start_no: int
    worker_dead: bool
    crashed_worker_id: bytes = b""  # who died with it in hand, which is counted; b"": no crash is


class CameBack(msgspec.Struct, frozen=True, gc=False):
    """A worker that was thought to have died with the task in hand lives: its crashes are counted no more."""

    run_id: bytes
    task_kind: TaskKind
    scheduled_event_id: int
    worker_id: bytes


class TimeOutTask(msgspec.Struct, frozen=True, gc=False):
    """A started attempt passed its start-to-close or heartbeat timeout (or a workflow task its own)."""

    run_id: bytes
    task_kind: TaskKind
    scheduled_event_id: int
    start_no: int
    timeout_type: TimeoutType
