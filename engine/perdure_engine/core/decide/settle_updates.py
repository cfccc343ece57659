"""What a workflow task says of updates: accepted, rejected, completed.

An accepted update is an event that holds its whole request, so that replay needs nothing else. A rejected one leaves
nothing: who waits is told, and its inbox row is dead.
"""

from __future__ import annotations

from typing import Any

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.draft import Draft
from perdure_engine.core.state import RunState


class UpdateChecker:
    """Walks the commands of one task with what the ones before have done to its updates."""

    __slots__ = ("accepted", "admitted", "state")

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.admitted = set(state.admitted or ())
        self.accepted: set[str] = {
            update_id
            for update_id, update in (state.folded.updates or {}).items()
            if not update.completed_event_id
        }

    def check(self, command: cmd.UpdateCommand) -> str | None:
        update_id = command.update_id
        match command:
            case cmd.AcceptUpdate() | cmd.RejectUpdate():
                if update_id not in self.admitted:
                    return f"no update {update_id!r} waits for a verdict"
                self.admitted.discard(update_id)
                if isinstance(command, cmd.AcceptUpdate):
                    self.accepted.add(update_id)
            case cmd.CompleteUpdate():
                if update_id not in self.accepted:
                    return f"no accepted update {update_id!r} is running"
                self.accepted.discard(update_id)
        return None


def without_verdict(state: RunState, commands: list[cmd.Command], updates_to: int) -> str | None:
    """An update that went out with the workflow task and that the worker says nothing of.

    Every task settles what came with it, so that an admitted update always has a task that it waits for.
    """
    settled = {
        command.update_id
        for command in commands
        if isinstance(command, cmd.AcceptUpdate | cmd.RejectUpdate)
    }
    for update_id, one in (state.admitted or {}).items():
        if one.seq <= updates_to and update_id not in settled:
            return update_id
    return None


def unseen(state: RunState, updates_to: int) -> bool:
    """Whether an update was admitted after a workflow task went out that carried those up to `updates_to`."""
    return state.admitted is not None and any(
        one.seq > updates_to for one in state.admitted.values()
    )


def accept(draft: Draft, command: cmd.AcceptUpdate, completed_id: int, _: Any) -> None:
    admitted = draft.settle_update(command.update_id)
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowExecutionUpdateAccepted(
            event_id,
            time_us,
            admitted.update_id,
            admitted.update_name,
            admitted.input,
            admitted.header,
            admitted.identity,
            admitted.body_hash,
            completed_id,
        )
    )


def reject(draft: Draft, command: cmd.RejectUpdate, completed_id: int, _: Any) -> None:
    draft.settle_update(command.update_id)
    if draft.rejected is None:
        draft.rejected = {}
    draft.rejected[command.update_id] = command.failure


def complete(draft: Draft, command: cmd.CompleteUpdate, completed_id: int, _: Any) -> None:
    updates = draft.state.folded.updates
    assert updates is not None
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowExecutionUpdateCompleted(
            event_id,
            time_us,
            command.update_id,
            updates[command.update_id].accepted_event_id,
            command.result,
            command.failure,
            completed_id,
        )
    )
