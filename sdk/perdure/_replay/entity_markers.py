"""What a call has changed of its entity's state, in a marker that is saved with the call's outcome.

Replay runs the handler again, for the commands that the history shows, but takes the state from here.
So the code of a handler may change at any time as long as it asks for the same things: what was
answered stays true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from perdure._payload import Payload
from perdure._replay.messages import RecordMarker
from perdure._replay.patches import markers_ahead
from perdure._replay.run import WorkflowRun
from perdure.errors import HistoryError

ENTITY_STATE = "entity_state"


class _Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first payload of the marker's details; the values of `changed` follow. `id` is the call's,
    and the marker's. `fresh`: what there was before is gone."""

    id: str
    changed: list[str] = []
    removed: list[str] = []
    fresh: bool = False


def saved_state(
    run: WorkflowRun,
    call_id: str,
    before: Mapping[str, Payload] | None,
    after: Mapping[str, Payload] | None,
) -> Mapping[str, Payload] | None:
    """The state when the call is over. `after` is what the code has made of it; on replay that does
    not count. None: as a new key's."""
    details = _recorded(run, call_id) if run.replaying else _details(call_id, before, after)
    if details is None:
        return before
    run.ledger.add(
        RecordMarker(marker_name=ENTITY_STATE, marker_id=call_id, details=details, failure=None),
        None,
    )
    return _applied(before, details)


def _recorded(run: WorkflowRun, call_id: str) -> list[Payload] | None:
    for marker in markers_ahead(run.upcoming, run.completed_event_id):
        if marker.marker_name == ENTITY_STATE and marker.marker_id == call_id:
            return marker.details
    return None


def _details(
    call_id: str, before: Mapping[str, Payload] | None, after: Mapping[str, Payload] | None
) -> list[Payload] | None:
    if after is None:
        change = _Change(call_id, fresh=True)
        return None if before is None else [_payload(change)]
    old = before or {}
    changed = [name for name, payload in after.items() if old.get(name) != payload]
    removed = [name for name in old if name not in after]
    # The first call makes a new key an old one, whatever it has changed.
    if not changed and not removed and before is not None:
        return None
    return [_payload(_Change(call_id, changed, removed)), *(after[name] for name in changed)]


def _applied(
    before: Mapping[str, Payload] | None, details: Sequence[Payload]
) -> dict[str, Payload] | None:
    try:
        change = msgspec.json.decode(details[0].data, type=_Change)
        values = dict(zip(change.changed, details[1:], strict=True))
    except (msgspec.MsgspecError, ValueError) as error:
        raise HistoryError(f"an entity's marker that cannot be read: {error}") from None
    if change.fresh:
        return None
    kept = {name: one for name, one in (before or {}).items() if name not in change.removed}
    return kept | values


def _payload(change: _Change) -> Payload:
    return Payload("json/plain", msgspec.json.encode(change))
