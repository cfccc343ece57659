"""Search attributes in workflow code: told at once, sent as a command, the same on each replay."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import workflow
from perdure._replay import messages as m
from perdure.common import (
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from perdure.errors import NondeterminismError

REGION = SearchAttributeKey.for_keyword("Region")
AMOUNT = SearchAttributeKey.for_int("Amount")
TAGS = SearchAttributeKey.for_keyword_list("Tags")


@workflow.defn
class Order:
    @workflow.run
    async def run(self) -> list[str]:
        seen = [str(workflow.info().typed_search_attributes.get(REGION))]
        workflow.upsert_search_attributes([REGION.value_set("us"), AMOUNT.value_set(3)])
        seen.append(workflow.info().typed_search_attributes[REGION])
        await workflow.sleep(1)
        workflow.upsert_search_attributes([AMOUNT.value_unset()])
        workflow.upsert_search_attributes([])
        seen.append(str(AMOUNT in workflow.info().typed_search_attributes))
        return seen


def test_upserts_are_commands_and_the_code_sees_them_at_once() -> None:
    run = PocketEngine(Order)

    assert names(run.task()) == ["UpsertSearchAttributes Region=us Amount=3", "StartTimer 1 1000"]
    run.fire("1")
    last = ["UpsertSearchAttributes Amount=None", "CompleteWorkflow ['None', 'us', 'False']"]
    assert names(run.task()) == last
    assert names(run.replay()) == last
    assert isinstance(run.replay_all(), m.TaskSuccess)


@pytest.mark.parametrize(
    ("wanted", "upserted"),
    [
        (None, []),
        (TypedSearchAttributes([SearchAttributePair(REGION, "eu")]), ["Amount=None Tags=None"]),
        ([SearchAttributePair(TAGS, ["a", "b"])], ["Amount=None Region=None"]),
        (
            [SearchAttributePair(AMOUNT, 2), SearchAttributePair(TAGS, ["b"])],
            ["Region=None Amount=2 Tags=['b']"],
        ),
        ([], ["Amount=None Region=None Tags=None"]),
    ],
)
def test_the_next_run_has_the_attributes_that_it_is_given_and_no_others(
    wanted: Any, upserted: list[str]
) -> None:
    @workflow.defn
    class Moving:
        @workflow.run
        async def run(self) -> None:
            with suppress(workflow.ContinueAsNewError):  # and so it is not done
                workflow.continue_as_new(search_attributes=[SearchAttributePair(AMOUNT, 9)])
            workflow.continue_as_new(search_attributes=wanted)

    there = TypedSearchAttributes(
        [
            SearchAttributePair(REGION, "eu"),
            SearchAttributePair(AMOUNT, 1),
            SearchAttributePair(TAGS, ["a", "b"]),
        ]
    )
    run = PocketEngine(Moving, started={"search_attributes": there})

    *before, _ = commands = names(run.task())
    assert before == [f"UpsertSearchAttributes {one}" for one in upserted]
    assert commands[-1].startswith("ContinueAsNew")
    assert names(run.replay()) == commands
    assert isinstance(run.replay_all(), m.TaskSuccess)


def test_code_that_no_longer_upserts_is_seen() -> None:
    @workflow.defn(name="Order")
    class Changed:
        @workflow.run
        async def run(self) -> None:
            await workflow.sleep(1)

    run = PocketEngine(Order)
    run.task()
    run.fire("1")
    run.begin_task()

    outcome = run.replay_outcome(Changed)

    assert isinstance(outcome, m.TaskFailure)
    assert outcome.cause.name == "NON_DETERMINISM"
    assert "UpsertWorkflowSearchAttributes" in outcome.failure.message
    assert NondeterminismError.__name__ in str(outcome.failure.info)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([("Region", "eu")], "value_set"),
        ({"Region": ["eu"]}, "value_set"),
        ([REGION.value_set("a"), REGION.value_set("b")], "given twice"),
    ],
)
def test_other_things_than_updates_are_refused(updates: Any, message: str) -> None:
    @workflow.defn
    class Wrong:
        @workflow.run
        async def run(self) -> str:
            try:
                workflow.upsert_search_attributes(updates)
            except (TypeError, ValueError) as error:
                return str(error)
            return "taken"

    (command,) = names(PocketEngine(Wrong).task())

    assert message in command


def test_a_query_cannot_change_them() -> None:
    @workflow.defn
    class Asked:
        @workflow.run
        async def run(self) -> None:
            await workflow.sleep(1)

        @workflow.query
        def change(self) -> None:
            workflow.upsert_search_attributes([REGION.value_set("us")])

    run = PocketEngine(Asked)
    run.task()

    failure = run.query("change").failure
    assert failure is not None
    assert "must not change" in failure.message


# ---- the values themselves


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (SearchAttributeKey.for_keyword("n"), 1),
        (SearchAttributeKey.for_text("n"), b"x"),
        (AMOUNT, True),
        (AMOUNT, 1.0),
        (SearchAttributeKey.for_float("n"), True),
        (SearchAttributeKey.for_float("n"), "1"),
        (SearchAttributeKey.for_bool("n"), 1),
        (SearchAttributeKey.for_datetime("n"), 1),
        (TAGS, "abc"),
        (TAGS, [1]),
        (TAGS, None),
    ],
)
def test_a_value_of_another_type(key: SearchAttributeKey[Any], value: Any) -> None:
    with pytest.raises(TypeError, match=f"search attribute '{key.name}' is a"):
        SearchAttributePair(key, value)
    with pytest.raises(TypeError):
        key.value_set(value)


def test_values_are_kept_in_one_form() -> None:
    naive = datetime(2026, 1, 1)
    due = SearchAttributePair(SearchAttributeKey.for_datetime("Due"), naive)
    rate = SearchAttributePair(SearchAttributeKey.for_float("Rate"), 1)

    assert due.value == naive.replace(tzinfo=UTC)
    assert type(rate.value) is float
    assert SearchAttributePair(TAGS, ("a", "b")).value == ["a", "b"]


def test_a_collection_of_them() -> None:
    found = TypedSearchAttributes(
        [SearchAttributePair(REGION, "eu"), SearchAttributePair(AMOUNT, 1)]
    )

    assert [pair.key.name for pair in found] == ["Amount", "Region"]
    assert (len(found), found[AMOUNT], found.get(TAGS), found.get(TAGS, [])) == (2, 1, None, [])
    assert REGION in found
    assert SearchAttributeKey.for_text("Region") not in found, "another type is another key"
    assert found.updated(SearchAttributePair(REGION, "us"))[REGION] == "us"
    assert found[REGION] == "eu"
    assert not TypedSearchAttributes.empty
    with pytest.raises(KeyError):
        found[TAGS]
    with pytest.raises(ValueError, match="given twice"):
        TypedSearchAttributes([SearchAttributePair(REGION, "a"), SearchAttributePair(REGION, "b")])
    assert SearchAttributeUpdate(REGION, None) == REGION.value_unset()
