"""Schedules and their slots as rows, and back."""

from __future__ import annotations

from perdure_engine.core.ids import schedule_uid, uuid_text
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import ScheduleRecord
from perdure_engine.history.rows import add_gone_timer, add_timer, version_to_send
from perdure_engine.ports.codec import Codec
from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow
from perdure_engine.ports.store import Batch


def add_schedule(batch: Batch, shard_id: int, draft: ScheduleDraft, codec: Codec) -> None:
    """Append all rows of one schedule's draft."""
    record, state = draft.record, draft.state
    batch.schedules.append(
        ScheduleRow(
            shard_id,
            record.namespace_id,
            record.schedule_id,
            draft.user_id,
            draft.schedule.paused,
            state.next_us or None,
            state.created_us,
            codec.encode_schedule(draft.schedule) if draft.defined else b"",
            codec.encode_schedule_state(state),
            draft.conflict_token,
            version_to_send(record.version),
            draft.gone,
        )
    )
    for (nominal_us, origin), change in draft.slots.items():
        batch.schedule_slots.append(
            ScheduleSlotRow(
                shard_id,
                record.namespace_id,
                record.schedule_id,
                nominal_us,
                origin,
                change.outcome,
                change.acted_us,
                uuid_text(change.target) if change.target else "",
                change.detail,
                version_to_send(change.version),
            )
        )
    if draft.timer is not None:
        add_timer(batch, shard_id, record.uid, draft.timer)
    for timer in draft.gone_timers:
        add_gone_timer(batch, shard_id, record.uid, timer)


def saved(draft: ScheduleDraft) -> ScheduleRecord:
    """The record that the statement has made of the draft's."""
    record = draft.record
    return ScheduleRecord(
        record.uid,
        record.namespace_id,
        record.schedule_id,
        draft.schedule,
        draft.state,
        draft.user_id,
        draft.conflict_token,
        record.version + 1,
        draft.gone,
    )


def schedule_of_row(row: ScheduleRow, codec: Codec) -> ScheduleRecord:
    """Raises CorruptRow."""
    return ScheduleRecord(
        schedule_uid(row.namespace_id, row.schedule_id),
        row.namespace_id,
        row.schedule_id,
        codec.decode_schedule(row.spec),
        codec.decode_schedule_state(row.state),
        row.user_id,
        row.conflict_token,
        row.version,
        row.gone,
    )
