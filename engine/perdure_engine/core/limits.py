"""Every limit is a named constant with its unit and the reason for its number (semantics §1)."""

from __future__ import annotations

import msgspec

WORKFLOW_ID_BYTES_MAX = 1_000  # Temporal's; keeps every index key under 2,000 bytes
NAME_BYTES_MAX = 500  # queues, types, activity ids, signal and query names
NAMESPACE_BYTES_MAX = 255
UPDATES_SUGGEST_SHARE = 0.9  # of a run's updates: from then on it had better continue as new
TASK_UPDATES_BYTES_MAX = 1024 * 1024  # that travel with one workflow task; the first always goes
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024  # one argument list or result
MEMO_BYTES_MAX = 2 * 1024 * 1024
HEADER_BYTES_MAX = 256 * 1024
CALL_METADATA_MAX = 64  # keys of a call; each is looked at before anything is known of the caller
REQUEST_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024  # gRPC's 4 MiB and room for the envelope
# All payloads of a child's start: with its names and attributes it must fit one request between nodes.
CHILD_START_BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024
BATCH_MESSAGE_BYTES_MAX = 2 * 1024 * 1024  # senders cut their batches here
TASK_HISTORY_PAGE_BYTES_MAX = 512 * 1024  # first page of a history that travels with a task
HISTORY_PART_BYTES_MAX = (
    256 * 1024
)  # larger history rows are split (CockroachDB's advice for values)
REASON_BYTES_MAX = 4 * 1024
IDENTITY_BYTES_MAX = 500
SEARCH_ATTRIBUTE_BYTES_MAX = 2 * 1024  # one value; Temporal's, and room in an index entry
SEARCH_ATTRIBUTES_BYTES_MAX = 40 * 1024  # all names and values of a run; Temporal's
QUERY_BYTES_MAX = 2 * 1024  # a filter; a person writes under 200
QUERY_TERMS_MAX = (
    50  # values and NOTs of a filter: each becomes a condition that the database plans
)
QUERY_DEPTH_MAX = 10  # parentheses in parentheses

DURATION_MS_MAX = 10 * 365 * 24 * 3600 * 1000  # ten years: beyond it a timeout is a typing error
ACTIVITY_VERSION_MAX = 1_000_000  # versions count up; what is beyond is a time or a hash
TASK_TIMEOUT_MS_DEFAULT = 10_000
TASK_TIMEOUT_MS_MAX = 120_000

JOBS_OF_CALL_MAX = 10_000
JOBS_TOGETHER = 256  # jobs of a call without keys: so many go to one shard, in one statement
JOB_RESULTS_OF_CALL_MAX = 1_000
JOB_PLACES_MAX = 100_000  # of one concurrency key: more is as good as any
JOB_RATE_MAX = 1_000_000.0  # starts in a second: more than an installation can do
JOB_FAILURES_BYTES_MAX = 1024 * 1024  # that a description shows: the last ones, and one in any case

BATCH_CALLS_MAX = 2_000  # calls of one BatchCall
POLL_TASKS_MAX = 1_000  # tasks of one kind that one poll may ask for
POLL_TIMEOUT_MS_MAX = 60_000
PAGE_SIZE_MAX = 1_000
PAGE_SIZE_DEFAULT = 100
AUDIT_KEPT_US = 400 * 24 * 3600 * 1_000_000  # a year and a month: last year's is there for an audit
BATCH_RPS_DEFAULT = 50  # operations of one batch operation a second; Temporal's
BATCH_RPS_MAX = 10_000  # more than an installation can do

SNAPSHOT_EVENTS = 64  # a fold of at most this many events stands between a snapshot and the present
SNAPSHOT_BYTES_MAX = 1024 * 1024  # a larger state is cheaper to fold than to save again and again

FAILURE_DEPTH_MAX = 20
STACK_TRACE_BYTES_MAX = 16 * 1024
FAILURE_MESSAGE_BYTES_MAX = 32 * 1024

RUN_INTENTS_PER_BATCH_MAX = 16  # one busy run must not fill a batch
REQUEST_IDS_HANDED_MAX = 10_000  # to the next run of a chain (semantics §1)
REQUEST_IDS_HANDED_US = (
    24 * 3600 * 1_000_000
)  # how long a run that has closed is remembered by them
REQUEST_MARK_EVERY = (
    64  # ids between two marks of when they came: hands on at most so many too many
)
RESET_BYTES_MAX = (
    8 * 1024 * 1024
)  # of a history that is reset: one statement carries it, and CockroachDB takes 16 MiB in all
HISTORY_BATCH_EVENTS_MAX = 1_000  # of one row of history: readers take rows whole
CRON_BYTES_MAX = 256  # longer is not written by hand
SCHEDULE_CATCH_UP_MOST_MAX = 1_000  # slots: what is caught up with at once
SCHEDULE_SLOTS_SHOWN = 10  # of its last ones, where a schedule is described
PREVIEW_TIMES_DEFAULT = 10
PREVIEW_TIMES_MAX = 1_000
# All of a shard's schedules are in its owner's memory: a few KB each, and what their actions are given.
SCHEDULES_OF_SHARD_MAX = 50_000
SCHEDULE_BYTES_OF_SHARD_MAX = 256 * 1024 * 1024
DEPLOYMENTS_MAX = 100  # of a namespace; Temporal's, and every node reads them all each second
VERSIONS_OF_DEPLOYMENT_MAX = 100
QUEUES_OF_VERSION_MAX = 100
VERSION_GRACE_MS = 24 * 3600 * 1000  # after a version's last run, before it may be retired (B16)

WORKFLOW_TASK_STUCK_ATTEMPTS = 5  # failed in a row; from then on the run shows as stuck
WORKFLOW_TASK_BACKOFF_MS_FIRST = 1_000
WORKFLOW_TASK_BACKOFF_MS_MAX = 600_000


class RunLimits(msgspec.Struct, frozen=True):
    """What one run may hold; settable per namespace."""

    history_events_suggest: int = 4_096
    history_bytes_suggest: int = 4 * 1024 * 1024
    history_events_max: int = 51_200
    history_bytes_max: int = 50 * 1024 * 1024
    pending_activities_max: int = 2_000
    pending_timers_max: int = 2_000
    signals_max: int = 10_000
    commands_max: int = 10_000  # of one workflow task
    updates_in_flight_max: int = 10  # admitted, or accepted and not completed
    updates_max: int = 2_000  # of one run; it remembers the id of each
    pending_children_max: int = 2_000
    pending_external_signals_max: int = 2_000
    pending_external_cancels_max: int = 2_000


DEFAULT_RUN_LIMITS = RunLimits()
