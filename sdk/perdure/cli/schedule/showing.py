"""Slots, as the commands beside this one print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.cli.output import shown_instant
from perdure.cli.session import Session

if TYPE_CHECKING:
    from perdure.schedule import ScheduleSlot

SLOT_COLUMNS = ("TIME", "OUTCOME", "ACTED", "RUN", "DETAIL")


def slot_row(slot: ScheduleSlot) -> Sequence[Any]:
    began = slot.job_id or (slot.run_id and f"{slot.workflow_id} {slot.run_id}")
    detail = "; ".join(filter(None, ("triggered" if slot.manual else "", slot.detail)))
    return slot.nominal_at, outcome_of(slot), slot.acted_at, began or None, detail or None


def outcome_of(slot: ScheduleSlot) -> str:
    return "of a newer engine" if slot.outcome is None else slot.outcome.name.lower()


def note_firing(session: Session, slots: Sequence[ScheduleSlot]) -> None:
    """Those that were on their way when the schedule was changed follow the old one."""
    for slot in slots:
        session.out.note(f"The action of {shown_instant(slot.nominal_at)} is still on its way.")
