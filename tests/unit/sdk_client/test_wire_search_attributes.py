"""Search attributes between the SDK's types and the wire: each type comes back as it went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from perdure._replay.messages import UpsertSearchAttributes
from perdure._wire.commands import command_fields
from perdure._wire.history import history_event_from_message
from perdure._wire.search_attributes import attributes_from_messages, attributes_to_fields
from perdure.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from perdure_api.v1 import common_pb2, event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PAIRS: list[SearchAttributePair[Any]] = [
    SearchAttributePair(SearchAttributeKey.for_text("Text"), "Big order"),
    SearchAttributePair(SearchAttributeKey.for_keyword("Keyword"), ""),
    SearchAttributePair(SearchAttributeKey.for_int("Int"), 0),
    SearchAttributePair(SearchAttributeKey.for_float("Float"), 0.5),
    SearchAttributePair(SearchAttributeKey.for_bool("Bool"), False),
    SearchAttributePair(SearchAttributeKey.for_datetime("Epoch"), EPOCH),
    SearchAttributePair(SearchAttributeKey.for_datetime("Early"), EPOCH - timedelta(days=9)),
    SearchAttributePair(SearchAttributeKey.for_keyword_list("List"), ["a", "b"]),
    SearchAttributePair(SearchAttributeKey.for_keyword_list("None"), []),
]
ALL = TypedSearchAttributes(PAIRS)


def sent(attributes: TypedSearchAttributes) -> list[common_pb2.SearchAttribute]:
    return [common_pb2.SearchAttribute(**fields) for fields in attributes_to_fields(attributes)]


def test_every_type_comes_back_as_it_went() -> None:
    assert attributes_from_messages(sent(ALL)) == ALL


def test_a_value_that_looks_like_none_is_one() -> None:
    """An empty text, 0, false: set, and not taken away."""
    assert all(message.WhichOneof("value") for message in sent(ALL))


def test_a_type_of_a_newer_engine_is_left_out() -> None:
    message = common_pb2.SearchAttribute(name="n", type=99, text="x")  # type: ignore[arg-type]

    assert attributes_from_messages([message]) == TypedSearchAttributes.empty


def test_an_upsert_says_what_is_taken_away() -> None:
    key = SearchAttributeKey.for_keyword("Region")
    updates = [key.value_unset(), SearchAttributeKey.for_int("Amount").value_set(3)]

    command = worker_pb.Command(**command_fields(UpsertSearchAttributes(updates=updates)))

    region, amount = command.upsert_search_attributes.search_attributes
    assert (region.name, region.type, region.WhichOneof("value")) == ("Region", 2, None)
    assert (amount.name, amount.int_value) == ("Amount", 3)
    event = event_pb2.HistoryEvent(
        upsert_workflow_search_attributes=event_pb2.UpsertWorkflowSearchAttributes(
            search_attributes=[region, amount]
        )
    )
    shown = history_event_from_message(event).attributes
    assert shown["search_attributes"] == [
        {"name": "Region", "type": "SEARCH_ATTRIBUTE_TYPE_KEYWORD"},
        {"name": "Amount", "type": "SEARCH_ATTRIBUTE_TYPE_INT", "int_value": 3},
    ]
