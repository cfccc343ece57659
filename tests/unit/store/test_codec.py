"""The codec: round trips, compression, and corrupt rows. Golden bytes are in tests/unit/core/test_event_bytes.py."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import zstandard
from tests.unit.core import samples

from perdure_engine.core import events as ev
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.schedules.model import Action, WorkflowAction
from perdure_engine.core.tasks import Handout, TaskKind, TaskRecord, TaskState
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import ROW_GONE, TaskRow
from perdure_engine.store.codec import COMPRESS_BYTES_MIN, PLAIN, ZSTD, MsgpackCodec

NAMESPACE = samples.NAMESPACE
WORKFLOW_ACTION = WorkflowAction(
    "report",
    StartWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="",
        run_id=b"",
        request_id=b"",
        body_hash=b"",
        workflow_type="Report",
        task_queue="reports",
        input=b"input",
        retry_policy=samples.POLICY,
        search_attributes=samples.ATTRIBUTES,
    ),
)
CODEC = MsgpackCodec()


def signaled(payload: bytes) -> ev.WorkflowExecutionSignaled:
    return ev.WorkflowExecutionSignaled(0, samples.TIME_US, "paid", payload, "", b"", b"r", b"h")


def record() -> TaskRecord:
    return TaskRecord(
        TaskKind.ACTIVITY,
        "cards",
        77,
        1 << 24 | 5,
        5,
        state=TaskState.STARTED,
        attempt=3,
        start_no=1 << 24 | 9,
        priority=2,
        worker_id=b"w" * 16,
        identity="worker-1@host",
        started_us=samples.TIME_US,
        last_failure=Failure(FailureKind.APPLICATION, "boom"),
        progress=b"progress",
        progress_version=4,
        ready_us=samples.TIME_US - 2,
        next_attempt_us=samples.TIME_US - 1,
        version=6,
    )


def row_of(task: TaskRecord, *, state: int = TaskState.STARTED) -> TaskRow:
    return TaskRow(
        3,
        task.queue_no,
        task.task_id,
        b"run",
        state,
        task.attempt,
        task.start_no,
        task.priority,
        CODEC.encode_task(task, NAMESPACE),
        task.version,
    )


def fields_of(task: TaskRecord) -> dict[str, object]:
    return {name: getattr(task, name) for name in TaskRecord.__struct_fields__}


# ---- round trips


def test_a_task_comes_back_from_its_columns_and_its_payload() -> None:
    task = record()

    assert fields_of(CODEC.decode_task(row_of(task))) == fields_of(task)


def test_a_hand_out_stays_in_memory() -> None:
    task = record()
    task.handout = Handout(task.start_no, task.worker_id, task.identity, task.started_us, 0.0)

    assert CODEC.decode_task(row_of(task)).handout is None


def test_a_task_row_names_its_namespace() -> None:
    assert CODEC.namespace_of_task(row_of(record())) == NAMESPACE


def test_a_head_comes_back_and_names_its_task_rows() -> None:
    payload = CODEC.encode_head(samples.HEAD)

    assert CODEC.decode_head(payload) == samples.HEAD
    assert CODEC.task_keys_of_head(payload) == [
        (queue_no, task_id) for _, queue_no, task_id in samples.HEAD.task_keys
    ]


def test_a_snapshot_comes_back() -> None:
    payload = CODEC.encode_snapshot(samples.FOLDED)

    assert CODEC.decode_snapshot(payload) == samples.FOLDED
    assert CODEC.encode_snapshot(CODEC.decode_snapshot(payload)) == payload


def test_a_buffered_event_comes_back() -> None:
    event = signaled(b"input")

    assert CODEC.decode_buffered(CODEC.encode_buffered(event)) == event


def test_what_a_job_is_comes_back() -> None:
    spec, state = CODEC.encode_job_spec(samples.JOB_SPEC), CODEC.encode_job_state(samples.JOB_STATE)

    assert CODEC.decode_job_spec(spec) == samples.JOB_SPEC
    assert CODEC.decode_job_state(state) == samples.JOB_STATE


@pytest.mark.parametrize("action", [samples.SCHEDULE.action, WORKFLOW_ACTION])
def test_a_schedule_comes_back_with_its_action(action: Action) -> None:
    schedule = msgspec.structs.replace(samples.SCHEDULE, action=action)

    assert CODEC.decode_schedule(CODEC.encode_schedule(schedule)) == schedule


def test_what_cannot_be_buffered_is_corrupt_in_the_inbox() -> None:
    [scheduled] = (e for e in samples.EVENTS if isinstance(e, ev.WorkflowTaskScheduled))

    with pytest.raises(CorruptRow):
        CODEC.decode_buffered(PLAIN + msgspec.msgpack.encode(scheduled))


# ---- compression


def test_what_is_small_stays_plain_and_what_is_large_is_compressed() -> None:
    bare = len(msgspec.msgpack.encode(signaled(b"")))
    small = signaled(b"a" * (COMPRESS_BYTES_MIN - bare - 4))
    large = signaled(b"a" * COMPRESS_BYTES_MIN)

    assert CODEC.encode_buffered(small)[:1] == PLAIN
    assert CODEC.encode_buffered(large)[:1] == ZSTD
    assert len(CODEC.encode_buffered(large)) < 200
    assert [CODEC.decode_buffered(CODEC.encode_buffered(e)) for e in (small, large)] == [
        small,
        large,
    ]


def test_a_compressed_row_that_was_cut_is_corrupt() -> None:
    payload = CODEC.encode_buffered(signaled(bytes(range(256)) * 64))

    for length in (1, 2, 5, len(payload) // 2, len(payload) - 1):
        with pytest.raises(CorruptRow):
            CODEC.decode_buffered(payload[:length])


def test_a_frame_that_claims_to_be_enormous_is_corrupt() -> None:
    """A flipped bit in the size a frame announces must not be believed: no such memory is taken."""
    body = msgspec.msgpack.encode(signaled(b"a" * COMPRESS_BYTES_MIN))
    frame = bytearray(zstandard.ZstdCompressor(level=3).compress(body))
    claimed = zstandard.frame_content_size(bytes(frame))
    # magic (4), descriptor (1) with an 8-byte content size and a single segment, then that size
    descriptor = 0xC0 | 0x20
    assert frame[4] & 0x20, "the compressor writes single-segment frames of known size"
    blocks = bytes(frame[5 + {0: 1, 1: 2, 2: 4, 3: 8}[frame[4] >> 6] :])
    enormous = frame[:4] + bytes((descriptor,)) + (claimed + (1 << 40)).to_bytes(8, "little")

    with pytest.raises(CorruptRow):
        CODEC.decode_buffered(ZSTD + bytes(enormous) + blocks)


# ---- corrupt rows: every door answers with CorruptRow and nothing else

CORRUPT = [
    b"",
    PLAIN,
    ZSTD,
    b"\x02\x90",
    PLAIN + b"\xc1",
    PLAIN + b"\x90",
    ZSTD + b"abc",
    b"\xff" * 9,
]
DOORS: dict[str, Callable[[bytes], object]] = {
    "decode_buffered": CODEC.decode_buffered,
    "decode_head": CODEC.decode_head,
    "task_keys_of_head": CODEC.task_keys_of_head,
    "decode_snapshot": CODEC.decode_snapshot,
    "decode_schedule": CODEC.decode_schedule,
    "decode_task": lambda payload: CODEC.decode_task(row_of(record())._replace(payload=payload)),
    "namespace_of_task": lambda payload: CODEC.namespace_of_task(
        row_of(record())._replace(payload=payload)
    ),
}


@pytest.mark.parametrize("payload", CORRUPT, ids=lambda p: p.hex() or "empty")
@pytest.mark.parametrize("door", DOORS)
def test_corrupt_bytes_are_corrupt_at_every_door(door: str, payload: bytes) -> None:
    with pytest.raises(CorruptRow):
        DOORS[door](payload)


# For these an empty array is a value.
DOORS_TO_ANY_ARRAY: dict[str, Callable[[bytes], object]] = {
    "decode_events": CODEC.decode_events,
    "decode_job_spec": CODEC.decode_job_spec,
    "decode_job_state": CODEC.decode_job_state,
    "decode_job_batch": CODEC.decode_job_batch,
    "decode_schedule_state": CODEC.decode_schedule_state,
}


@pytest.mark.parametrize(
    "payload", [p for p in CORRUPT if p != PLAIN + b"\x90"], ids=lambda p: p.hex()
)
@pytest.mark.parametrize("door", DOORS_TO_ANY_ARRAY)
def test_corrupt_bytes_are_corrupt_where_an_empty_array_is_not(door: str, payload: bytes) -> None:
    with pytest.raises(CorruptRow):
        DOORS_TO_ANY_ARRAY[door](payload)


def test_a_task_state_of_another_version_is_corrupt_not_a_crash() -> None:
    """ports.codec: every decode_* raises CorruptRow, whichever column it is that does not read back."""
    with pytest.raises(CorruptRow):
        CODEC.decode_task(row_of(record(), state=ROW_GONE + 1))
