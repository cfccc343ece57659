"""What a child knows of those above it, and what becomes of it when its parent closes."""

from __future__ import annotations

import enum

import msgspec


class ParentClosePolicy(enum.IntEnum):
    """The numbers are Temporal's."""

    TERMINATE = 1
    ABANDON = 2
    REQUEST_CANCEL = 3


class Parent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The run that started a child, by which event, and the first one above them all. Appended to only.

    All of them are of one namespace.
    """

    workflow_id: str
    run_id: bytes
    initiated_event_id: int
    root_workflow_id: str
    root_run_id: bytes


class ChildOf(msgspec.Struct, frozen=True, gc=False):
    """Whose child a run must be, for what is asked of it. `initiated_event_id` 0: any child of that run."""

    run_id: bytes
    initiated_event_id: int = 0
