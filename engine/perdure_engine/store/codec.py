"""msgpack by msgspec for every payload at rest, compressed with zstd where that pays.

The first byte tells the form: 0 plain, 1 zstd. Whatever is read is read with unknown trailing fields ignored and
missing ones at their defaults (core.events says why).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import zstandard

from perdure_engine.core.events import Event, InboxEvent
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.core.jobs.model import JobSpec, JobState
from perdure_engine.core.schedules.model import Schedule, ScheduleState
from perdure_engine.core.state import Folded, Head
from perdure_engine.core.tasks import TaskPayload, TaskRecord, TaskState
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import TaskRow

PLAIN = b"\x00"
ZSTD = b"\x01"
COMPRESS_BYTES_MIN = (
    4096  # below it the gain is under a kilobyte and the call costs as much as the row
)
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024  # far above every limit on a run: a bomb, not a history

JOB_STATE_HEAD = PLAIN + b"\x9f"  # of an array of 15 in msgpack; that of 16 takes three bytes
assert JobState.__struct_fields__.index("crashes") == 15
assert len(JobState.__struct_fields__) == 16

T = TypeVar("T")


class MsgpackCodec:
    """Implements ports.codec.Codec. Not thread-safe: one per event loop."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._events: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[Event])
        self._buffered: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(InboxEvent)
        self._head = msgspec.msgpack.Decoder(Head)
        self._task = msgspec.msgpack.Decoder(TaskPayload)
        self._folded = msgspec.msgpack.Decoder(Folded)
        self._schedule = msgspec.msgpack.Decoder(Schedule)
        self._schedule_state = msgspec.msgpack.Decoder(ScheduleState)
        self._job_spec = msgspec.msgpack.Decoder(JobSpec)
        self._job_state = msgspec.msgpack.Decoder(JobState)
        self._job_batch = msgspec.msgpack.Decoder(BatchState)
        self._compress = zstandard.ZstdCompressor(level=3).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def encode_events(self, events: list[Event]) -> bytes:
        return self._pack(events)

    def decode_events(self, payload: bytes) -> list[Event]:
        return self._unpack(self._events, payload)

    def encode_buffered(self, event: InboxEvent) -> bytes:
        return self._pack(event)

    def decode_buffered(self, payload: bytes) -> InboxEvent:
        event: InboxEvent = self._unpack(self._buffered, payload)
        return event

    def encode_head(self, head: Head) -> bytes:
        return self._pack(head)

    def decode_head(self, payload: bytes) -> Head:
        return self._unpack(self._head, payload)

    def task_keys_of_head(self, head: bytes) -> list[tuple[int, int]]:
        return [(queue_no, task_id) for _, queue_no, task_id in self.decode_head(head).task_keys]

    def encode_task(self, record: TaskRecord, namespace_id: bytes) -> bytes:
        return self._pack(
            TaskPayload(
                record.kind,
                namespace_id,
                record.queue,
                record.scheduled_event_id,
                record.worker_id,
                record.identity,
                record.started_us,
                record.last_failure,
                record.progress,
                record.progress_version,
                record.ready_us,
                record.next_attempt_us,
                record.aside,
                record.pinned,
            )
        )

    def decode_task(self, row: TaskRow) -> TaskRecord:
        payload = self._unpack(self._task, row.payload)
        try:
            state = TaskState(row.state)
        except ValueError as error:
            raise CorruptRow(f"task state {row.state}") from error
        return TaskRecord(
            payload.kind,
            payload.queue,
            row.queue_no,
            row.task_id,
            payload.scheduled_event_id,
            state=state,
            attempt=row.attempt,
            start_no=row.start_no,
            priority=row.priority,
            worker_id=payload.worker_id,
            identity=payload.identity,
            started_us=payload.started_us,
            last_failure=payload.last_failure,
            progress=payload.progress,
            progress_version=payload.progress_version,
            ready_us=payload.ready_us,
            next_attempt_us=payload.next_attempt_us,
            aside=payload.aside,
            pinned=payload.pinned,
            version=row.version,
        )

    def namespace_of_task(self, row: TaskRow) -> bytes:
        return self._unpack(self._task, row.payload).namespace_id

    def encode_snapshot(self, folded: Folded) -> bytes:
        return self._pack(folded)

    def decode_snapshot(self, payload: bytes) -> Folded:
        return self._unpack(self._folded, payload)

    def encode_schedule(self, schedule: Schedule) -> bytes:
        return self._pack(schedule)

    def decode_schedule(self, payload: bytes) -> Schedule:
        return self._unpack(self._schedule, payload)

    def encode_schedule_state(self, state: ScheduleState) -> bytes:
        return self._pack(state)

    def decode_schedule_state(self, payload: bytes) -> ScheduleState:
        return self._unpack(self._schedule_state, payload)

    def encode_job_spec(self, spec: JobSpec) -> bytes:
        return self._pack(spec)

    def decode_job_spec(self, payload: bytes) -> JobSpec:
        return self._unpack(self._job_spec, payload)

    def encode_job_state(self, state: JobState) -> bytes:
        """Nearly all jobs have no crashes and are written without the field: two bytes fewer in the head of the array
        besides, at thousands of rows a second."""
        packed = self._encode(state)
        if state.crashes is None and len(packed) < COMPRESS_BYTES_MIN:
            return JOB_STATE_HEAD + packed[3:-1]
        return self._framed(packed)

    def decode_job_state(self, payload: bytes) -> JobState:
        return self._unpack(self._job_state, payload)

    def encode_job_batch(self, state: BatchState) -> bytes:
        return self._pack(state)

    def decode_job_batch(self, payload: bytes) -> BatchState:
        return self._unpack(self._job_batch, payload)

    def _pack(self, value: object) -> bytes:
        packed = self._encode(value)
        if len(packed) < COMPRESS_BYTES_MIN:
            return PLAIN + packed
        return self._framed(packed)

    def _framed(self, packed: bytes) -> bytes:
        if len(packed) < COMPRESS_BYTES_MIN:
            return PLAIN + packed
        return ZSTD + self._compress(packed)

    def _unpack(self, decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
        form, body = payload[:1], payload[1:]
        try:
            if form == ZSTD:
                # the announced size is not believed: a flipped bit must not take a terabyte
                if zstandard.frame_content_size(body) > DECOMPRESSED_BYTES_MAX:
                    raise CorruptRow("the frame announces more than any row may hold")
                body = self._decompress(body, max_output_size=DECOMPRESSED_BYTES_MAX)
            elif form != PLAIN:
                raise CorruptRow(f"unknown form byte {form!r}")
            return decoder.decode(body)
        except (msgspec.DecodeError, zstandard.ZstdError, ValueError) as error:
            raise CorruptRow(str(error)) from error
