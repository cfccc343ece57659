"""Act for the slots of a span of time that have not acted (B31: at most so many in one call)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import invalid
from perdure_engine.core.repeats import body_of
from perdure_engine.core.schedules.auditing import note
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import Backfilled, BackfillSchedule
from perdure_engine.core.schedules.model import (
    BACKFILL_MOST,
    OverlapPolicy,
    RequestMark,
    SlotOrigin,
    SlotOutcome,
    WaitingSlot,
)
from perdure_engine.core.schedules.overlap import arrive
from perdure_engine.core.schedules.saved import require_exists

ACTED = frozenset(
    (SlotOutcome.FIRING, SlotOutcome.FIRED, SlotOutcome.BACKFILLED, SlotOutcome.BUFFERED)
)


class KnownSlot(msgspec.Struct, frozen=True, gc=False):
    """A slot of the span that has a record, by its row."""

    nominal_us: int
    origin: SlotOrigin
    outcome: SlotOutcome
    version: int


def span_of(draft: ScheduleDraft, intent: BackfillSchedule) -> list[int]:
    """The nominal times that the call is about. What is still to come, or whose turn it just is, is left to the
    schedule. Raises INVALID_ARGUMENT, also when there are too many.
    """
    require_exists(draft)
    if intent.from_us > intent.to_us:
        raise invalid("from_us", "lies after to_us")
    last_us = min(intent.to_us, draft.env.now_us)
    if draft.state.next_us:
        last_us = min(last_us, draft.state.next_us - 1)
    times, spec = draft.times, draft.schedule.spec
    found: list[int] = []
    at_us = times.next_us(spec, intent.from_us - 1)
    while at_us and at_us <= last_us:
        if len(found) == BACKFILL_MOST:
            raise invalid("to_us", f"there are more than {BACKFILL_MOST} slots until then")
        found.append(at_us)
        at_us = times.next_us(spec, at_us)
    return found


def decide(
    draft: ScheduleDraft, intent: BackfillSchedule, known: Sequence[KnownSlot]
) -> Backfilled:
    """`known`: the slots of the span that have a record, as they are saved, but for what was called for by hand."""
    span = span_of(draft, intent)
    of_row = {slot.nominal_us: slot for slot in known} | _of_this_step(draft)
    acted = {slot.nominal_us for slot in of_row.values() if slot.outcome in ACTED}
    waiting = draft.state.waiting
    acted.update(slot.nominal_us for slot in waiting if slot.origin is not SlotOrigin.MANUAL)
    wanted = [at_us for at_us in span if at_us not in acted]
    if draft.mark_of(intent) is not None:
        wanted = _done_before(draft, known)
    elif not intent.dry_run:
        draft.answered(RequestMark(intent.request_id, body=body_of(intent)))
        overlap = intent.overlap or draft.schedule.policies.overlap
        for at_us in wanted:
            _act(draft, at_us, overlap, of_row.get(at_us))
        note(draft, Action.BACKFILL_SCHEDULE, intent, after=f"{len(wanted)} slots")
    left_alone = [at_us for at_us in span if at_us in acted and at_us not in wanted]
    return Backfilled(wanted, left_alone)


def _of_this_step(draft: ScheduleDraft) -> dict[int, KnownSlot]:
    """What the step has done already is in no row yet. The version is that of the row it will have: a slot that waits
    for an answer is next written by another step."""
    return {
        nominal_us: KnownSlot(nominal_us, origin, change.outcome, change.version + 1)
        for (nominal_us, origin), change in draft.slots.items()
        if origin is not SlotOrigin.MANUAL
    }


def _act(
    draft: ScheduleDraft, nominal_us: int, overlap: OverlapPolicy, row: KnownSlot | None
) -> None:
    origin, version = (SlotOrigin.BACKFILL, 0) if row is None else (row.origin, row.version)
    now_us = draft.env.now_us
    arrive(draft, WaitingSlot(nominal_us, origin, overlap, now_us, backfill=True, version=version))


def _done_before(draft: ScheduleDraft, known: Sequence[KnownSlot]) -> list[int]:
    """What an earlier call has acted for: asked again, it is answered the same."""
    state = draft.state
    done = {slot.nominal_us for slot in known if slot.outcome is SlotOutcome.BACKFILLED}
    done.update(action.nominal_us for action in state.actions if action.backfill)
    done.update(slot.nominal_us for slot in state.waiting if slot.backfill)
    return sorted(done)
