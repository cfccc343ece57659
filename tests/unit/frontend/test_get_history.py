"""Histories in pages, and those to come; the rest of a task's history."""

from typing import Any

import pytest
from tests.unit.frontend.fakes import (
    NAMESPACE_ID,
    OTHER_NAMESPACE_ID,
    RUN_ID,
    FakeHistory,
    Room,
)

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import Event, TimerFired, WorkflowExecutionSignaled
from perdure_engine.core.intents import WaitEvents
from perdure_engine.core.replies import EventsReady
from perdure_engine.frontend.handlers.get_history import (
    GetHistory,
    get_history,
    within_bytes,
)
from perdure_engine.frontend.handlers.get_task_history import (
    Rest,
    get_task_history,
    seal_rest,
)
from perdure_engine.ports.history import EventsPage


def fired(event_id: int) -> Event:
    return TimerFired(event_id, 1_000, "1", 4)


def request(**changes: Any) -> GetHistory:
    fields: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "workflow_id": "order-1",
        "run_id": b"",
        "page_size": 2,
        "page_token": b"",
        "wait_new_event": False,
        "timeout_ms": 0,
    }
    return GetHistory(**{**fields, **changes})


def page(first: int, last: int, following: int = 0, closed: bool = False) -> EventsPage:
    return EventsPage([fired(n) for n in range(first, last + 1)], following, closed, RUN_ID)


async def test_pages_follow_each_other_and_keep_to_the_run_of_the_first() -> None:
    room = Room()
    room.history.pages = [page(1, 2, 3), page(3, 3, closed=True)]

    first = await get_history(room.frontend, request())
    second = await get_history(room.frontend, request(page_token=first.next_page_token))

    assert [event.event_id for event in first.events + second.events] == [1, 2, 3]
    assert second.next_page_token == b""
    assert [read[3:] for read in room.history.reads] == [(b"", 1, 2), (RUN_ID, 3, 2)]


async def test_without_a_wait_the_pages_end_at_the_present() -> None:
    room = Room()
    room.history.pages = [page(1, 2)]

    assert (await get_history(room.frontend, request())).next_page_token == b""


async def test_with_a_wait_the_present_is_not_the_end() -> None:
    room = Room()
    room.history.pages = [page(1, 2), page(3, 2), page(3, 3, closed=True)]
    room.history.answer = lambda _: EventsReady(RUN_ID, 3, True)

    first = await get_history(room.frontend, request(wait_new_event=True))
    assert first.next_page_token
    second = await get_history(
        room.frontend, request(wait_new_event=True, page_token=first.next_page_token)
    )

    assert [event.event_id for event in second.events] == [3]
    assert second.next_page_token == b""
    ((_, wait),) = room.history.submitted
    assert wait == WaitEvents(
        namespace_id=NAMESPACE_ID, workflow_id="order-1", run_id=RUN_ID, after_event_id=2
    )


async def test_a_wait_whose_time_is_over_answers_empty_with_the_same_place() -> None:
    room = Room()
    room.history.pages = [page(1, 2), page(3, 2), page(3, 3)]
    room.history.answer = lambda _: FakeHistory.PENDING
    waiting: dict[str, Any] = {"wait_new_event": True, "timeout_ms": 1}

    first = await get_history(room.frontend, request(**waiting))
    second = await get_history(room.frontend, request(**waiting, page_token=first.next_page_token))
    third = await get_history(room.frontend, request(**waiting, page_token=second.next_page_token))

    assert second.events == []
    assert [event.event_id for event in third.events] == [3]


async def test_b20_a_page_token_belongs_to_its_workflow_and_namespace() -> None:
    room = Room()
    room.history.pages = [page(1, 2, 3)]
    token = (await get_history(room.frontend, request())).next_page_token
    room.history.reads.clear()

    for other in (
        request(page_token=token, workflow_id="order-2"),
        request(page_token=token, namespace_id=OTHER_NAMESPACE_ID),
        request(page_token=token[:-1] + b"x"),
        request(page_token=b"garbage"),
    ):
        with pytest.raises(Rejected) as caught:
            await get_history(room.frontend, other)
        assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "page_token")
    assert not room.touched


async def test_a_page_is_cut_where_a_message_ends() -> None:
    room = Room()
    half = bytes(limits.BATCH_MESSAGE_BYTES_MAX // 2)
    large: list[Event] = [
        WorkflowExecutionSignaled(n, 1_000, "s", half, "", b"", RUN_ID, b"h") for n in (1, 2, 3)
    ]
    room.history.pages = [EventsPage(large, 0, True, RUN_ID), page(2, 3, closed=True)]

    first = await get_history(room.frontend, request(page_size=1_000))
    await get_history(room.frontend, request(page_token=first.next_page_token))

    assert [event.event_id for event in first.events] == [1]
    assert room.history.reads[1][4] == 2


def test_one_event_always_fits() -> None:
    assert within_bytes([fired(1), fired(2)], 1) == [fired(1)]


async def test_the_rest_of_a_task_comes_in_pages_and_ends_with_what_is_not_saved() -> None:
    room = Room()
    room.history.task_pages = [([fired(5), fired(6)], 7), ([fired(7)], 0)]
    token = seal_rest(room.frontend, NAMESPACE_ID, Rest(2, RUN_ID, 5, 7, [fired(8)]))

    first = await get_task_history(room.frontend, NAMESPACE_ID, token)
    second = await get_task_history(room.frontend, NAMESPACE_ID, first.next_page_token)

    assert [event.event_id for event in first.events] == [5, 6]
    assert [event.event_id for event in second.events] == [7, 8]
    assert second.next_page_token == b""
    assert [read[:4] for read in room.history.reads] == [(2, RUN_ID, 5, 7), (2, RUN_ID, 7, 7)]


async def test_a_rest_that_is_not_saved_at_all_needs_no_read() -> None:
    room = Room()
    token = seal_rest(room.frontend, NAMESPACE_ID, Rest(2, RUN_ID, 8, 7, [fired(8)]))

    assert (await get_task_history(room.frontend, NAMESPACE_ID, token)).events == [fired(8)]
    assert room.history.reads == []


async def test_b20_the_rest_of_a_task_belongs_to_its_namespace() -> None:
    room = Room()
    token = seal_rest(room.frontend, NAMESPACE_ID, Rest(2, RUN_ID, 5, 7, []))

    with pytest.raises(Rejected) as caught:
        await get_task_history(room.frontend, OTHER_NAMESPACE_ID, token)

    assert caught.value.field == "page_token"
