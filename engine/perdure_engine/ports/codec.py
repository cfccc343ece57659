"""Bytes at rest: what stands in the payload columns. One implementation, `store.codec`."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from perdure_engine.core.events import Event, InboxEvent
from perdure_engine.core.jobs.model import JobSpec, JobState
from perdure_engine.core.schedules.model import Schedule
from perdure_engine.core.state import Folded, Head
from perdure_engine.core.tasks import TaskRecord
from perdure_engine.ports.rows import TaskRow

S = TypeVar("S", bound=msgspec.Struct)


class CorruptRow(Exception):
    """Stored bytes that do not read back. The run is quarantined; the shard goes on."""


class Codec(Protocol):
    """Every `decode_*` and `*_of` raises CorruptRow."""

    def encode_events(self, events: list[Event]) -> bytes: ...

    def decode_events(self, payload: bytes) -> list[Event]: ...

    def encode_buffered(self, event: InboxEvent) -> bytes: ...

    def decode_buffered(self, payload: bytes) -> InboxEvent: ...

    def encode_head(self, head: Head) -> bytes: ...

    def decode_head(self, payload: bytes) -> Head: ...

    def task_keys_of_head(self, head: bytes) -> list[tuple[int, int]]:
        """(queue_no, task_id) of the run's task rows."""
        ...

    def encode_task(self, record: TaskRecord, namespace_id: bytes) -> bytes: ...

    def decode_task(self, row: TaskRow) -> TaskRecord: ...

    def namespace_of_task(self, row: TaskRow) -> bytes: ...

    def encode_snapshot(self, folded: Folded) -> bytes: ...

    def decode_snapshot(self, payload: bytes) -> Folded: ...

    def encode_job_spec(self, spec: JobSpec) -> bytes: ...

    def decode_job_spec(self, payload: bytes) -> JobSpec: ...

    def encode_job_state(self, state: JobState) -> bytes: ...

    def decode_job_state(self, payload: bytes) -> JobState: ...

    def encode_schedule(self, schedule: Schedule) -> bytes: ...

    def decode_schedule(self, payload: bytes) -> Schedule: ...

    def encode_state(self, state: msgspec.Struct) -> bytes:
        """What a schedule, or a batch of jobs, has come to."""
        ...

    def decode_state(self, payload: bytes, type_: type[S]) -> S: ...
