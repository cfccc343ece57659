"""What the SDK keeps in markers: patches, the outcomes of local activities, what became of compensations.

The first value of a marker's details says which one it is, as JSON of our own (no converter or codec of the user's
is between us and it); a local activity's result follows, as the user's converter made it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure._payload import Payload
from perdure._replay.messages import (
    CompensationNote,
    LocalActivityOutcome,
    MarkerRecorded,
    RecordMarker,
)
from perdure.errors import HistoryError, RetryState

PATCH = "patch"
LOCAL_ACTIVITY = "local_activity"
COMPENSATION = "compensation"


class _Data(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    deprecated: bool = False
    activity_type: str = ""
    attempt: int = 0
    retry_state: int = 0
    backoff_ms: int = 0


def marker_id(details: Sequence[Payload]) -> str:
    """Empty for what is none of ours; never raises."""
    try:
        return _data(details).id
    except HistoryError:
        return ""


def patch_marker(patch_id: str, *, deprecated: bool) -> RecordMarker:
    return RecordMarker(
        marker_name=PATCH,
        marker_id=patch_id,
        details=[_payload(_Data(patch_id, deprecated=deprecated))],
        failure=None,
    )


def is_deprecated_patch(event: MarkerRecorded) -> bool:
    return event.marker_name == PATCH and _data(event.details).deprecated


def compensation_marker(note: CompensationNote) -> RecordMarker:
    which = f"{note.name} {note.outcome}"
    return RecordMarker(
        marker_name=COMPENSATION,
        marker_id=which,
        details=[_payload(_Data(which))],
        failure=None,
        compensation=note,
    )


def local_marker(outcome: LocalActivityOutcome, activity_type: str) -> RecordMarker:
    data = _Data(
        outcome.activity_id,
        activity_type=activity_type,
        attempt=outcome.attempt,
        retry_state=int(outcome.retry_state or 0),
        backoff_ms=outcome.backoff_ms,
    )
    return RecordMarker(
        marker_name=LOCAL_ACTIVITY,
        marker_id=outcome.activity_id,
        details=[_payload(data), *outcome.result],
        failure=outcome.failure,
    )


def local_outcome(event: MarkerRecorded) -> LocalActivityOutcome:
    """Raises HistoryError for a marker that no version of ours wrote."""
    data = _data(event.details)
    try:
        retry_state = RetryState(data.retry_state) if data.retry_state else None
    except ValueError:  # of a later version: it says only why there was no further attempt
        retry_state = None
    return LocalActivityOutcome(
        activity_id=data.id,
        attempt=data.attempt,
        result=event.details[1:],
        failure=event.failure,
        retry_state=retry_state,
        backoff_ms=data.backoff_ms,
    )


def _payload(data: _Data) -> Payload:
    return Payload("json/plain", msgspec.json.encode(data))


def _data(details: Sequence[Payload]) -> _Data:
    if not details:
        raise HistoryError("a marker without details")
    try:
        return msgspec.json.decode(details[0].data, type=_Data)
    except msgspec.MsgspecError as error:
        raise HistoryError(f"a marker that cannot be read: {error}") from None
