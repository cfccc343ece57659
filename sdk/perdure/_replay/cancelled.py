"""How those who wait for an activity or a child workflow hear that it was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from perdure.errors import ActivityError, CancelledError, RetryState

if TYPE_CHECKING:
    from perdure._replay.activity_handle import ActivityHandle
    from perdure._replay.loop import DeterministicLoop


class CancelledActivity(Protocol):
    """What an activity says of itself, a local one too."""

    by_asyncio: bool
    handle: ActivityHandle[Any]

    @property
    def activity_id(self) -> str: ...

    @property
    def activity_type(self) -> str: ...

    @property
    def scheduled_event_id(self) -> int: ...


def end_cancelled(machine: CancelledActivity, details: Sequence[Any] = ()) -> None:
    """Ends its handle; who cancelled it decides how."""
    if machine.by_asyncio:
        machine.handle.give_up()
        return
    machine.handle.fail(activity_cancelled(machine, details))


def activity_cancelled(machine: CancelledActivity, details: Sequence[Any] = ()) -> ActivityError:
    error = ActivityError(
        "Activity cancelled",
        scheduled_event_id=machine.scheduled_event_id,
        started_event_id=0,
        identity="",
        activity_type=machine.activity_type,
        activity_id=machine.activity_id,
        retry_state=RetryState.CANCEL_REQUESTED,
    )
    error.__cause__ = CancelledError("Cancelled", *details)
    return error


class Waited(Protocol):
    """What a future that stands for an activity or a child knows of it."""

    @property
    def waits_for_cancellation(self) -> bool:
        """Does its cancellation type wait for what it comes to?"""
        ...

    def cancelled_error(self) -> BaseException: ...


def raised_instead(future: asyncio.Future[Any], waited: Waited) -> BaseException | None:
    """What who awaits `future` is to hear when asyncio says CancelledError. None: just that.

    When not asyncio began the cancellation, it is an error like that with which the handle ends
    when it is cancelled. asyncio says CancelledError all the same where the handle had ended just
    before its task was told: by a time limit that was over in the same workflow task, or because
    the outcome came behind the request to cancel, which is told first. Who waits for outcomes must
    not take a success for a cancellation, nor lose the cancellation: that remains a CancelledError.
    """
    loop = cast("DeterministicLoop", future.get_loop())
    if not future.done() or not loop.is_told():
        return None
    if waited.waits_for_cancellation and not future.cancelled():
        return future.exception()
    return waited.cancelled_error()
