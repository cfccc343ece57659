"""What operators ask of a run and of its activities."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.versions import Versioning


class PauseActivity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`activity_id` "": all pending ones of `activity_type`; so in the three intents below."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    activity_id: str
    activity_type: str
    identity: str = ""
    reason: str = ""


class UnpauseActivity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    activity_id: str
    activity_type: str
    reset_attempts: bool = False
    reset_heartbeat: bool = False
    identity: str = ""
    reason: str = ""


class ResetActivity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    activity_id: str
    activity_type: str
    request_id: bytes
    reset_heartbeat: bool = False
    keep_paused: bool = False
    restore_original_options: bool = False
    identity: str = ""
    reason: str = ""


class UpdateActivityOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """None: as it is. `restore_original`: back to what it was scheduled with, and nothing else is given."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    activity_id: str
    activity_type: str
    restore_original: bool = False
    task_queue: str | None = None
    schedule_to_close_timeout_ms: int | None = None
    schedule_to_start_timeout_ms: int | None = None
    start_to_close_timeout_ms: int | None = None
    heartbeat_timeout_ms: int | None = None
    retry_policy: RetryPolicy | None = None
    priority: int | None = None
    identity: str = ""
    reason: str = ""


class RunOperation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What an operator does with a whole run, and why."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""


class PauseWorkflow(RunOperation, frozen=True, gc=False, kw_only=True):
    pass


class UnpauseWorkflow(RunOperation, frozen=True, gc=False, kw_only=True):
    pass


class ResumeWorkflow(RunOperation, frozen=True, gc=False, kw_only=True):
    """What of the run is poisoned is ready at once, for the surgical pool; a suspended run goes on."""


class ResetType(enum.IntEnum):
    """Which workflow task a reset goes to, when it names no event."""

    FIRST_WORKFLOW_TASK = 1
    LAST_WORKFLOW_TASK = 2
    BUILD_ID = 3  # the first one that this build completed


class Reapply(enum.IntEnum):
    """What came in after the point of a reset, and can be applied again."""

    SIGNAL = 1
    UPDATE = 2


class ResetWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `Started`: the run that begins with this one's history. Its id follows from the request's."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    new_run_id: bytes
    event_id: int = 0  # the end of a workflow task; 0: `reset_type` says which
    reset_type: ResetType = ResetType.LAST_WORKFLOW_TASK
    build_id: str = ""
    reapply_exclude: frozenset[Reapply] = frozenset()
    identity: str = ""
    reason: str = ""
    job_id: str = ""  # of the batch operation that asks: of the newest run of an id, once


class UpdateWorkflowOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`versioning_override` None: what the code says."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    versioning_override: Versioning | None
    identity: str = ""
    reason: str = ""
