"""GetHistory: the events of a run in pages, or those to come; of an archived run too."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected
from perdure_engine.core.events import Event
from perdure_engine.core.intents import WaitEvents
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import archived_run
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.archive import ArchivedRun
from perdure_engine.ports.history import EventsPage

EVENTS_DEFAULT = 1_000

event_bytes = msgspec.msgpack.Encoder().encode


class GetHistory(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    page_size: int
    page_token: bytes
    wait_new_event: bool
    timeout_ms: int


class HistoryAnswer(msgspec.Struct, frozen=True):
    """A page. `next_page_token` b"" ends the pages.

    Either the run has closed and this was its end, or there is no more now and nobody waits. The events of an archived
    run are texts of JSON.
    """

    events: list[Event]
    next_page_token: bytes
    archived: list[bytes] = []


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page begins.

    It names the run: which one is current may change between two pages.
    """

    run_id: bytes
    event_id: int


async def get_history(frontend: Frontend, request: GetHistory) -> HistoryAnswer:
    checks.workflow_id("workflow_id", request.workflow_id)
    size = checks.page_size("page_size", request.page_size, EVENTS_DEFAULT)
    timeout_s = checks.wait_s("timeout_ms", request.timeout_ms)
    place = _place(frontend, request)
    try:
        page = await _read(frontend, request, place, size)
    except Rejected as refusal:
        run = await archived_run(
            frontend, refusal, request.namespace_id, request.workflow_id, place.run_id
        )
        return _of_archived(frontend, request, place, run, size)
    if request.wait_new_event and not page.events and not page.closed:
        wait = WaitEvents(
            namespace_id=request.namespace_id,
            workflow_id=request.workflow_id,
            run_id=page.run_id,
            after_event_id=place.event_id - 1,
        )
        if await frontend.parking.wait(frontend.submit(wait), timeout_s) is not None:
            page = await _read(frontend, request, Place(page.run_id, place.event_id), size)
    return _answer(frontend, request, place, page)


def _answer(
    frontend: Frontend, request: GetHistory, place: Place, page: EventsPage
) -> HistoryAnswer:
    events = within_bytes(page.events, limits.BATCH_MESSAGE_BYTES_MAX)
    following = place.event_id + len(events)
    at_end = len(events) == len(page.events) and not page.next_event_id
    if at_end and (page.closed or not request.wait_new_event):
        return HistoryAnswer(events, b"")
    token = frontend.sealer.seal_page(Place(page.run_id, following), _scope(request))
    return HistoryAnswer(events, token)


def _of_archived(
    frontend: Frontend, request: GetHistory, place: Place, run: ArchivedRun, limit: int
) -> HistoryAnswer:
    """Events are numbered from 1 on, without a gap."""
    texts: list[bytes] = []
    room = limits.BATCH_MESSAGE_BYTES_MAX
    for text in run.events[place.event_id - 1 : place.event_id - 1 + limit]:
        room -= len(text)
        if room < 0 and texts:
            break
        texts.append(text)
    following = place.event_id + len(texts)
    if following > len(run.events):
        return HistoryAnswer([], b"", texts)
    token = frontend.sealer.seal_page(Place(run.row.run_id, following), _scope(request))
    return HistoryAnswer([], token, texts)


def within_bytes(events: Iterable[Event], bytes_max: int) -> list[Event]:
    """As many as fit, and at least one.

    A message of a thousand large events would be refused on its way.
    """
    fitting: list[Event] = []
    room = bytes_max
    for event in events:
        room -= len(event_bytes(event))
        if room < 0 and fitting:
            break
        fitting.append(event)
    return fitting


def _place(frontend: Frontend, request: GetHistory) -> Place:
    if not request.page_token:
        return Place(request.run_id, 1)
    return frontend.sealer.open_page("page_token", request.page_token, _scope(request), Place)


def _scope(request: GetHistory) -> bytes:
    return b"get_history" + request.namespace_id + request.run_id + request.workflow_id.encode()


async def _read(frontend: Frontend, request: GetHistory, place: Place, limit: int) -> EventsPage:
    return await frontend.history.read_events(
        frontend.shard_id(request.namespace_id, request.workflow_id),
        request.namespace_id,
        request.workflow_id,
        place.run_id,
        place.event_id,
        limit,
    )
