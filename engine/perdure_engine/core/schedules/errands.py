"""What a schedule has to say to workflows, made from its state: start, stop, are you still open?

The schedule's row is the outbox: a slot whose start is on its way is named in its state, saved in the step that claims
it, until the answer is saved. Ids follow from the slot, so that a second delivery finds the first.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from perdure_engine.core.ids import message_request_id, slot_number
from perdure_engine.core.intents import (
    AskRun,
    CancelWorkflow,
    DeliveredIntent,
    StartWorkflow,
    TerminateWorkflow,
)
from perdure_engine.core.messages import IDENTITY
from perdure_engine.core.schedules.model import (
    ScheduleRecord,
    ScheduleState,
    SlotAction,
    SlotOrigin,
    Stop,
    WorkflowAction,
)


class ErrandKind(enum.IntEnum):
    START = 1
    STOP = 2
    ASK = 3  # whether it is open still; again and again, until it is not


class Errand(NamedTuple):
    nominal_us: int
    origin: SlotOrigin
    kind: ErrandKind


def errands_of(record: ScheduleRecord) -> list[Errand]:
    """What is to be said now, and again until it is answered."""
    state = record.state
    if not state.actions:
        return []
    curious = bool(state.waiting) or record.schedule.policies.pause_on_failure
    found: list[Errand] = []
    for action in state.actions:
        if not action.workflow_id:
            continue
        if action.firing:
            found.append(Errand(action.nominal_us, action.origin, ErrandKind.START))
        elif action.stop and not action.told:
            found.append(Errand(action.nominal_us, action.origin, ErrandKind.STOP))
        elif curious:
            found.append(Errand(action.nominal_us, action.origin, ErrandKind.ASK))
    return found


def said_by(record: ScheduleRecord, errand: Errand) -> DeliveredIntent | None:
    """None: it has its answer."""
    action = action_of(record.state, errand)
    if action is None:
        return None
    match errand.kind:
        case ErrandKind.START:
            return _start(record, action) if action.firing else None
        case ErrandKind.STOP:
            return _stop(record, action) if action.stop and not action.told else None
        case ErrandKind.ASK:
            return AskRun(
                namespace_id=record.namespace_id,
                workflow_id=action.workflow_id,
                run_id=b"",
                first_run_id=action.target,
            )


def action_of(state: ScheduleState, errand: Errand) -> SlotAction | None:
    """None: it is over."""
    for action in state.actions:
        if action.nominal_us == errand.nominal_us and action.origin == errand.origin:
            return action
    return None


def _start(record: ScheduleRecord, action: SlotAction) -> StartWorkflow:
    claimed_with = record.state.kept[action.kept - 1] if action.kept else record.schedule.action
    assert isinstance(claimed_with, WorkflowAction)
    request_id = message_request_id(record.uid, slot_number(action.nominal_us, action.origin))
    return msgspec.structs.replace(
        claimed_with.start,
        namespace_id=record.namespace_id,
        workflow_id=action.workflow_id,
        run_id=action.target,
        request_id=request_id,
        body_hash=request_id,
        identity=IDENTITY,
    )


def _stop(record: ScheduleRecord, action: SlotAction) -> CancelWorkflow | TerminateWorkflow:
    kind = TerminateWorkflow if action.stop is Stop.TERMINATE else CancelWorkflow
    number = slot_number(action.nominal_us, action.origin)
    request_id = message_request_id(record.uid, -4 * number - action.stop)
    return kind(
        namespace_id=record.namespace_id,
        workflow_id=action.workflow_id,
        run_id=b"",
        request_id=request_id,
        body_hash=request_id,
        identity=IDENTITY,
        reason=f"schedule {record.schedule_id!r}: a later slot takes its place",
        first_run_id=action.target,
    )
