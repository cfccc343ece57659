"""Rows as the archive's lists hold them, a line of JSON each."""

from __future__ import annotations

import msgspec

from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.status import Status
from perdure_engine.ports.archive import ArchiveCorrupt, ArchivedJobFilter, ArchivedRun
from perdure_engine.ports.rows import VisibilityRow

NO_ATTRIBUTES = "{}"


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Appended to only, and each new field with a default: what was archived once is read for ever.

    `memo` is an encoded Memo (base64), `attrs` as in core.search_attributes.to_json.
    """

    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: str
    start_time_us: int
    close_time_us: int
    history_events: int
    history_size_bytes: int
    memo: bytes = b""
    attrs: msgspec.Raw = msgspec.Raw(NO_ATTRIBUTES.encode())


class RunHead(msgspec.Struct, frozen=True):
    """The line of a run, its history passed over."""

    workflow: RunRow


class RunEvents(msgspec.Struct, frozen=True):
    """The line of a run, its row passed over."""

    events: list[msgspec.Raw]


class JobRow(msgspec.Struct, frozen=True):
    """What lists go by of a job, by the names of the contract's JobInfo, whose JSON each line is."""

    job_id: str
    close_time_us: int
    status: str
    task_name: str = ""
    task_queue: str = ""
    user_id: str = ""
    schedule_id: str = ""
    batch_id: str = ""
    scheduled_time_us: int = 0
    failure_type: str = ""


class JobHead(msgspec.Struct, frozen=True):
    """The line of a job, JSON of the contract's JobDetails; all but its info passed over."""

    info: JobRow


encode = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(RunRow).decode
_decode_head = msgspec.json.Decoder(RunHead).decode
_decode_line = msgspec.json.Decoder(RunEvents).decode
_decode_job = msgspec.json.Decoder(JobRow).decode
_decode_job_head = msgspec.json.Decoder(JobHead).decode


def run_row(row: VisibilityRow) -> RunRow:
    assert row.close_us is not None, "it has closed"
    return RunRow(
        workflow_id=row.workflow_id,
        run_id=uuid_text(row.run_id),
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        status=Status(row.status).name,
        start_time_us=row.start_us,
        close_time_us=row.close_us,
        history_events=row.history_events,
        history_size_bytes=row.history_bytes,
        memo=row.memo,
        attrs=msgspec.Raw(row.attrs.encode()),
    )


def visibility_row(line: bytes, namespace_id: bytes, shard_id: int) -> VisibilityRow:
    """Raises ArchiveCorrupt."""
    try:
        return _visibility_row(_decode_row(line), namespace_id, shard_id)
    except (msgspec.DecodeError, ValueError, KeyError) as error:
        raise ArchiveCorrupt(f"an archived row does not read back: {error}") from error


def run_line_row(line: bytes, namespace_id: bytes, shard_id: int) -> VisibilityRow:
    """The row at the head of a line. Raises ArchiveCorrupt."""
    try:
        return _visibility_row(_decode_head(line).workflow, namespace_id, shard_id)
    except (msgspec.DecodeError, ValueError, KeyError) as error:
        raise ArchiveCorrupt(f"an archived run does not read back: {error}") from error


def run_line(line: bytes, row: VisibilityRow) -> ArchivedRun:
    """All of the line whose row is known. Raises ArchiveCorrupt."""
    try:
        return ArchivedRun(row, [bytes(event) for event in _decode_line(line).events])
    except msgspec.DecodeError as error:
        raise ArchiveCorrupt(f"an archived history does not read back: {error}") from error


def job_row(line: bytes) -> JobRow:
    """Raises ArchiveCorrupt."""
    try:
        return _decode_job(line)
    except msgspec.DecodeError as error:
        raise ArchiveCorrupt(f"an archived job does not read back: {error}") from error


def job_line_row(line: bytes) -> JobRow:
    """What stands at the head of a line. Raises ArchiveCorrupt."""
    try:
        return _decode_job_head(line).info
    except msgspec.DecodeError as error:
        raise ArchiveCorrupt(f"an archived job does not read back: {error}") from error


def job_listed(asked: ArchivedJobFilter, row: JobRow) -> bool:
    """Whether a list with this filter shows the job."""
    where = asked.where
    return (
        where.user_id in ("", row.user_id)
        and (not where.statuses or _job_status(row.status) in where.statuses)
        and where.task_name in ("", row.task_name)
        and where.queue in ("", row.task_queue)
        and where.schedule_id in ("", row.schedule_id)
        and where.batch_id in ("", row.batch_id)
        and row.scheduled_time_us >= where.from_us
        and (not where.to_us or row.scheduled_time_us < where.to_us)
        and asked.failure_type in ("", row.failure_type)
    )


def _job_status(name: str) -> int:
    """0: one that this version does not know."""
    known = JobStatus.__members__.get(name.removeprefix("JOB_STATUS_"))
    return 0 if known is None else int(known)


def id_bytes(text: str) -> bytes:
    """Of an id in canonical text. Raises ArchiveCorrupt."""
    try:
        return bytes.fromhex(text.replace("-", ""))
    except ValueError as error:
        raise ArchiveCorrupt(f"an archived id is none: {error}") from error


def _visibility_row(row: RunRow, namespace_id: bytes, shard_id: int) -> VisibilityRow:
    return VisibilityRow(
        shard_id,
        id_bytes(row.run_id),
        namespace_id,
        0,  # the bucket spreads an index of the tables, and is not kept
        row.workflow_id,
        row.workflow_type,
        row.task_queue,
        Status[row.status],
        row.start_time_us,
        row.close_time_us,
        row.history_events,
        row.history_size_bytes,
        row.memo,
        bytes(row.attrs).decode(),
    )
