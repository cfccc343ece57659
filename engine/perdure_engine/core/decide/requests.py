"""Checks that several client intents share: is the run open, was the request seen before."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

from perdure_engine.core import limits
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected, not_found
from perdure_engine.core.events import (
    BufferedEvent,
    WorkflowExecutionCancelRequested,
    WorkflowExecutionOptionsUpdated,
    WorkflowExecutionSignaled,
)
from perdure_engine.core.parents import ChildOf
from perdure_engine.core.state import Folded, RunState


def require_open(state: RunState) -> None:
    if not state.open:
        started = state.folded.started
        raise not_found(
            "WORKFLOW", f"workflow {started.workflow_id!r} has closed: {state.folded.status.name}"
        )


def require_child(state: RunState, child_of: ChildOf | None) -> None:
    """What is asked by a run of its own child must not reach a stranger that has the same id by now."""
    if child_of is None:
        return
    started = state.folded.started
    parent = started.parent
    if (
        parent is None
        or parent.run_id != child_of.run_id
        or child_of.initiated_event_id not in (0, parent.initiated_event_id)
    ):
        raise not_found("WORKFLOW", f"workflow {started.workflow_id!r} is not that run's child")


def require_chain(state: RunState, first_run_id: bytes) -> None:
    """A workflow id may by now name another chain of runs than the one that is meant."""
    if first_run_id and state.folded.started.first_run_id != first_run_id:
        raise not_found(
            "WORKFLOW",
            f"the chain of runs that is meant has ended; workflow {state.folded.started.workflow_id!r}"
            " has been started again",
        )


def seen(draft: Draft, request_id: bytes, body_hash: bytes) -> bool:
    """Whether this request has been applied. The same id with another body is an error."""
    known = draft.state.folded.request_ids.get(request_id)
    if known is None and draft.state.buffered:
        known = _seen_in_buffer(draft.state.buffered, request_id)
    return known is not None and same_body(known, body_hash)


def _seen_in_buffer(buffered: list[BufferedEvent], request_id: bytes) -> bytes | None:
    for event in buffered:
        match event:
            case (
                WorkflowExecutionSignaled()
                | WorkflowExecutionCancelRequested()
                | WorkflowExecutionOptionsUpdated()
            ):
                if event.request_id == request_id:
                    return event.body_hash
            case _:
                pass
    return None


def same_body(known: bytes, body_hash: bytes) -> bool:
    if known != body_hash:
        raise Rejected(
            Code.INVALID_ARGUMENT,
            "REQUEST_ID_REUSED",
            "request_id: was used before with another request",
            field="request_id",
        )
    return True


# ---- what a chain knows


def handed_on(folded: Folded, now_us: int) -> tuple[tuple[bytes, bytes, int], ...]:
    """The request ids of the last 24 h with a time that they came before: what the next run must know.

    Ids that came in between two marks count as of the later one: kept longer than a day, never shorter.
    """
    if not folded.request_ids:
        return ()
    handed = folded.started.request_ids
    marks = iter([*(folded.request_marks or ()), (len(folded.request_ids), now_us)])
    count, time_us = next(marks)
    first = _expired(folded, now_us)
    known: list[tuple[bytes, bytes, int]] = []
    for index, (request_id, body_hash) in enumerate(
        islice(folded.request_ids.items(), first, None), first
    ):
        if index < len(handed):
            known.append(handed[index])
            continue
        while count <= index:
            count, time_us = next(marks)
        # After a reset, ids of before come again behind those that were handed on: late is never too early.
        floor_us = handed[-1][2] if handed else 0
        known.append((request_id, body_hash, max(time_us, floor_us)))
    return tuple(known)


def recent_ids(folded: Folded, now_us: int) -> int:
    """How many ids would be handed on now."""
    return len(folded.request_ids) - _expired(folded, now_us)


def _expired(folded: Folded, now_us: int) -> int:
    """How many of the ids, from the first on, came more than 24 h ago."""
    since_us = now_us - limits.REQUEST_IDS_HANDED_US
    handed = folded.started.request_ids
    expired = bisect_right(handed, since_us, key=lambda one: one[2])
    if expired == len(handed):
        for count, time_us in folded.request_marks or ():
            if time_us <= since_us:
                expired = max(expired, count)
    return expired
