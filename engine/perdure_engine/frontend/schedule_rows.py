"""Schedules and their slots as the store has them, for lists."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import ScheduleInfo, Slot
from perdure_engine.core.schedules.saved import info_of, slot_of_row
from perdure_engine.ports.codec import Codec
from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow


def schedule_of(codec: Codec, row: ScheduleRow) -> ScheduleInfo | None:
    """None: it was deleted, and only something of it is still on its way. Raises CorruptRow."""
    state = codec.decode_schedule_state(row.state)
    if state.deleted:
        return None
    return info_of(row.schedule_id, row.user_id, codec.decode_schedule(row.spec), state)


def slot_of(row: ScheduleSlotRow) -> Slot:
    return slot_of_row(
        row.nominal_us, row.origin, row.outcome, row.acted_us, row.target_id, row.detail
    )
