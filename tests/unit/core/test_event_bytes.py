"""The bytes at rest, for ever: two versions of the engine share a database during a rolling upgrade.

`golden_bytes.json` holds, per type, what each released form of it looks like, oldest first. It is never edited:
when a field is appended to a type, the new form is appended to its list, and the old one must still be read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.unit.core import samples

from perdure_engine.core import events as ev
from perdure_engine.core.failures import Failure
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.state import Activity, Folded, Head, Timer
from perdure_engine.core.tasks import TaskPayload
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.store.codec import MsgpackCodec

GOLDEN: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "golden_bytes.json").read_text(encoding="utf-8")
)
CODEC = MsgpackCodec()
SAMPLES: list[Any] = [*samples.EVENTS, *samples.RECORDS]
APPENDED = "a field of a later version"

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: type(s).__name__)
each_event = pytest.mark.parametrize("event", samples.EVENTS, ids=lambda e: type(e).__name__)


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def unpack(payload: bytes, type_: Any) -> Any:
    return msgspec.msgpack.decode(payload, type=type_)


def elements(sample: object) -> list[Any]:
    """The array that stands for the sample at rest."""
    array: list[Any] = msgspec.msgpack.decode(pack(sample))
    return array


# ---- golden bytes


@each_sample
def test_the_bytes_written_are_the_newest_golden_ones(sample: Any) -> None:
    assert pack(sample).hex() == GOLDEN[type(sample).__name__][-1]


@each_sample
def test_every_released_form_is_read(sample: Any) -> None:
    """Fields that a form did not have yet are at their defaults."""
    for golden in GOLDEN[type(sample).__name__]:
        payload = bytes.fromhex(golden)
        array = msgspec.msgpack.decode(payload)
        read = unpack(payload, type(sample))
        assert begins_with(elements(read), array)
        known = len(array) - (1 if is_event(sample) else 0)
        for field in msgspec.structs.fields(type(sample))[known:]:
            default = field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            assert getattr(read, field.name) == default


def begins_with(written: Any, read: Any) -> bool:
    """Is it what was read, with fields appended at the ends of its arrays, at any depth?"""
    if isinstance(read, list):
        return len(written) >= len(read) and all(map(begins_with, written, read))
    if isinstance(read, dict):
        return written.keys() == read.keys() and all(
            begins_with(written[key], read[key]) for key in read
        )
    return bool(written == read)


def test_every_type_has_golden_bytes() -> None:
    assert GOLDEN.keys() == {type(sample).__name__ for sample in SAMPLES}


def is_event(sample: object) -> bool:
    return isinstance(sample, ev.EventBase)


# ---- the union, the numbers


def test_every_member_of_the_event_union_has_a_sample() -> None:
    assert [type(event) for event in samples.EVENTS] == list(get_args(ev.Event))


def test_every_event_type_is_a_member_of_the_union() -> None:
    assert [snake(event).upper() for event in get_args(ev.Event)] == [
        event_type.name for event_type in ev.EventType
    ]


def test_the_tag_of_an_event_is_its_type_number() -> None:
    numbers = {snake(event).upper(): event.__struct_config__.tag for event in get_args(ev.Event)}

    assert numbers == {event_type.name: event_type.value for event_type in ev.EventType}


def test_the_type_numbers_are_those_of_temporal() -> None:
    """Golden: what each number means can never change."""
    assert [(event_type.value, event_type.name) for event_type in ev.EventType] == [
        (1, "WORKFLOW_EXECUTION_STARTED"),
        (2, "WORKFLOW_EXECUTION_COMPLETED"),
        (3, "WORKFLOW_EXECUTION_FAILED"),
        (4, "WORKFLOW_EXECUTION_TIMED_OUT"),
        (5, "WORKFLOW_TASK_SCHEDULED"),
        (6, "WORKFLOW_TASK_STARTED"),
        (7, "WORKFLOW_TASK_COMPLETED"),
        (8, "WORKFLOW_TASK_TIMED_OUT"),
        (9, "WORKFLOW_TASK_FAILED"),
        (10, "ACTIVITY_TASK_SCHEDULED"),
        (11, "ACTIVITY_TASK_STARTED"),
        (12, "ACTIVITY_TASK_COMPLETED"),
        (13, "ACTIVITY_TASK_FAILED"),
        (14, "ACTIVITY_TASK_TIMED_OUT"),
        (15, "ACTIVITY_TASK_CANCEL_REQUESTED"),
        (16, "ACTIVITY_TASK_CANCELED"),
        (17, "TIMER_STARTED"),
        (18, "TIMER_FIRED"),
        (19, "TIMER_CANCELED"),
        (20, "WORKFLOW_EXECUTION_CANCEL_REQUESTED"),
        (21, "WORKFLOW_EXECUTION_CANCELED"),
        (26, "WORKFLOW_EXECUTION_SIGNALED"),
        (27, "WORKFLOW_EXECUTION_TERMINATED"),
        (28, "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"),
        (41, "WORKFLOW_EXECUTION_UPDATE_ACCEPTED"),
        (43, "WORKFLOW_EXECUTION_UPDATE_COMPLETED"),
        (47, "WORKFLOW_EXECUTION_UPDATE_ADMITTED"),
        (25, "MARKER_RECORDED"),
        (46, "WORKFLOW_PROPERTIES_MODIFIED"),
        (40, "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"),
        (22, "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED"),
        (23, "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED"),
        (24, "EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED"),
        (29, "START_CHILD_WORKFLOW_EXECUTION_INITIATED"),
        (30, "START_CHILD_WORKFLOW_EXECUTION_FAILED"),
        (31, "CHILD_WORKFLOW_EXECUTION_STARTED"),
        (32, "CHILD_WORKFLOW_EXECUTION_COMPLETED"),
        (33, "CHILD_WORKFLOW_EXECUTION_FAILED"),
        (34, "CHILD_WORKFLOW_EXECUTION_CANCELED"),
        (35, "CHILD_WORKFLOW_EXECUTION_TIMED_OUT"),
        (36, "CHILD_WORKFLOW_EXECUTION_TERMINATED"),
        (37, "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED"),
        (38, "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED"),
        (39, "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED"),
        (58, "WORKFLOW_EXECUTION_PAUSED"),
        (59, "WORKFLOW_EXECUTION_UNPAUSED"),
        (54, "WORKFLOW_EXECUTION_OPTIONS_UPDATED"),
    ]


def test_the_closing_and_the_buffered_events_are_events() -> None:
    closing, buffered = set(get_args(ev.ClosingEvent)), set(get_args(ev.BufferedEvent))

    assert closing | buffered <= set(get_args(ev.Event))
    assert closing & buffered == set()


@pytest.mark.parametrize("field", ["event_id", "time_us"])
def test_every_event_begins_with_its_id_and_its_time(field: str) -> None:
    position = ("event_id", "time_us").index(field)

    assert {e.__struct_fields__[position] for e in get_args(ev.Event)} == {field}


@each_sample
def test_a_sample_sets_every_field_to_what_is_not_its_default(sample: Any) -> None:
    for field in msgspec.structs.fields(type(sample)):
        assert getattr(sample, field.name) != field.default, field.name
        if field.default_factory is not msgspec.NODEFAULT:
            assert getattr(sample, field.name) != field.default_factory(), field.name


def snake(event: type) -> str:
    return "".join(
        f"_{letter.lower()}" if letter.isupper() else letter for letter in event.__name__
    ).strip("_")


# ---- older and newer versions


@each_event
def test_a_field_that_a_later_version_appended_is_ignored(event: ev.Event) -> None:
    [read] = CODEC.decode_events(b"\x00" + pack([[*elements(event), APPENDED]]))

    assert read == event


@pytest.mark.parametrize("sample", samples.RECORDS, ids=lambda s: type(s).__name__)
def test_a_field_appended_to_a_record_is_ignored(sample: Any) -> None:
    assert unpack(pack([*elements(sample), APPENDED]), type(sample)) == sample


@each_event
def test_a_later_version_reads_what_this_one_wrote(event: ev.Event) -> None:
    """The convention works: a field appended with a default is at its default in older bytes."""
    later = msgspec.defstruct(
        f"Later{type(event).__name__}",
        [("appended", str, APPENDED)],
        bases=(type(event),),
        frozen=True,
        array_like=True,
        tag=type(event).__struct_config__.tag,
    )

    read = unpack(pack(event), later)

    assert (read.appended, elements(read)) == (APPENDED, [*elements(event), APPENDED])


@pytest.mark.parametrize(
    ("type_", "required"),
    [
        (Head, 5),
        (TaskPayload, 4),
        (Folded, 1),
        (Activity, 1),
        (Timer, 3),
        (Failure, 2),
        (RetryPolicy, 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_missing_trailing_fields_are_at_their_defaults(type_: type, required: int) -> None:
    sample = sample_of(type_)
    array = elements(sample)
    for length in range(required, len(array)):
        fields = type_.__struct_fields__[:length]  # type: ignore[attr-defined]
        expected = type_(**{name: getattr(sample, name) for name in fields})
        assert unpack(pack(array[:length]), type_) == expected
    if required:
        with pytest.raises(msgspec.ValidationError):
            unpack(pack(array[: required - 1]), type_)


def sample_of(type_: type) -> Any:
    known = {type(sample): sample for sample in SAMPLES}
    known |= {Failure: samples.FAILURE, RetryPolicy: samples.POLICY}
    known |= {Activity: samples.FOLDED.activities[5], Timer: samples.FOLDED.timers["t-1"]}
    return known[type_]


@each_event
def test_an_event_without_a_field_it_always_had_is_corrupt(event: ev.Event) -> None:
    required = 1 + sum(field.required for field in msgspec.structs.fields(type(event)))  # the tag

    CODEC.decode_events(b"\x00" + pack([elements(event)[:required]]))
    with pytest.raises(CorruptRow):
        CODEC.decode_events(b"\x00" + pack([elements(event)[: required - 1]]))


# ---- corrupt bytes


def corruptions(event: ev.Event) -> dict[str, bytes]:
    array = elements(event)
    whole = pack([event])
    return {
        "nothing": b"",
        "no form byte": whole,
        "an unknown form byte": b"\x07" + whole,
        "cut short": b"\x00" + whole[:-1],
        "more after it": b"\x00" + whole + b"\x00",
        "not an array": b"\x00" + pack(event),
        "an unknown event type": b"\x00" + pack([[999, *array[1:]]]),
        "no event type": b"\x00" + pack([array[1:]]),
        "an id that is not a number": b"\x00" + pack([[array[0], "one", *array[2:]]]),
        "text that is not UTF-8": b"\x00"
        + pack([array]).replace(b"worker", b"\xff\xfe\xfd\xfc\xfb\xfa"),
        "not compressed": b"\x01" + whole,
    }


@pytest.mark.parametrize("name", corruptions(samples.EVENTS[5]))
def test_corrupt_bytes_are_named_so(name: str) -> None:
    with pytest.raises(CorruptRow):
        CODEC.decode_events(corruptions(samples.EVENTS[5])[name])


@each_event
def test_events_survive_the_way_to_the_database_and_back(event: ev.Event) -> None:
    assert CODEC.decode_events(CODEC.encode_events([event, event])) == [event, event]
