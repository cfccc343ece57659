"""Events that a workflow task needs and does not bring along."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from perdure._wire.calls import Target
from perdure._wire.retry import retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import PolledWorkflowTask
from perdure.errors import HistoryError, RPCError

# A task is the engine's again after 10 s (its time-out), whatever we still find.
GIVE_UP_AFTER_S = 10.0


class Numbered(Protocol):
    """An event, read or as the wire brought it."""

    @property
    def event_id(self) -> int: ...


E = TypeVar("E", bound=Numbered)

TaskPages = Callable[[bytes], Awaitable[tuple[list[E], bytes]]]
"""The events past a token, and the token of the next page, empty after the last."""
RunPages = Callable[[Target, bytes, float], Awaitable[tuple[list[E], bytes]]]
"""The same of the public history. The last argument: seconds to wait for the answer."""


class TaskHistory(Generic[E]):
    """Fetches. Raises RPCError, PayloadDecodeError, or HistoryError when pages do not join on."""

    def __init__(
        self,
        task_pages: TaskPages[E],
        run_pages: RunPages[E],
        namespace: str,
        surroundings: Surroundings,
    ) -> None:
        self._task_pages = task_pages
        self._run_pages = run_pages
        self._namespace = namespace
        self._surroundings = surroundings

    async def fetch_before(self, task: PolledWorkflowTask) -> list[E]:
        """Everything up to the first event that the task brings, or when it brings none, up to the
        last that it is about.

        The run's public history serves: what a worker has not kept was saved with the completion
        of an earlier task.
        """
        target = Target(self._namespace, task.workflow_id, task.run_id)
        last_id = task.first_event_id - 1 if task.first_event_id else task.started_event_id
        events: list[E] = []
        token = b""
        while len(events) < last_id:

            async def page(token: bytes = token) -> tuple[list[E], bytes]:
                return await self._run_pages(target, token, GIVE_UP_AFTER_S)

            found, token = await self._insist(page)
            events.extend(event for event in found if event.event_id <= last_id)
            if not token:
                break
        _check_joined(events, 1, last_id)
        return events

    async def fetch_after(self, task: PolledWorkflowTask) -> list[E]:
        """The pages behind those events that the task brings."""
        events: list[E] = []
        token = task.next_page_token
        while token:

            async def page(token: bytes = token) -> tuple[list[E], bytes]:
                return await self._task_pages(token)

            found, token = await self._insist(page)
            events.extend(found)
        if events:
            _check_joined(events, events[0].event_id, task.started_event_id)
        return events

    async def _insist(
        self, page: Callable[[], Awaitable[tuple[list[E], bytes]]]
    ) -> tuple[list[E], bytes]:
        give_up_at_s = self._surroundings.monotonic_s() + GIVE_UP_AFTER_S
        attempt = 0
        while True:
            try:
                return await page()
            except RPCError as error:
                attempt += 1
                delay_s = retry_delay_s(error, attempt, self._surroundings.random)
                if delay_s is None or self._surroundings.monotonic_s() + delay_s > give_up_at_s:
                    raise
            await self._surroundings.sleep(delay_s)


def _check_joined(events: Sequence[Numbered], first_id: int, last_id: int) -> None:
    found = [event.event_id for event in events]
    if found != list(range(first_id, last_id + 1)):
        raise HistoryError(f"events {first_id} to {last_id} were asked for, not all of them came")
