"""Search attributes of a run: set at its start, changed by its commands, on its list row with the state."""

from __future__ import annotations

import json

import pytest
from tests.unit.core.samples import ATTRIBUTES
from tests.unit.core.scenario import COMPLETE, Scenario, done, signal, start

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import limits, search_attributes
from perdure_engine.core.describe import describe
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute, merged, words

SET = tuple(attribute for attribute in ATTRIBUTES if attribute.value is not None)
REGION = SearchAttribute("Region", AttributeType.KEYWORD, "eu")


def upsert(*changes: SearchAttribute) -> cmd.UpsertSearchAttributes:
    return cmd.UpsertSearchAttributes(changes)


def row(run: Scenario) -> str:
    return run.saved.visibility[run.state.run_id].attrs


def test_a_start_without_attributes_writes_the_same_row_as_ever() -> None:
    assert row(Scenario(start())) == "{}"


def test_a_start_saves_its_attributes_with_the_state() -> None:
    """Invariant 64: lists say what history says, from the first commit on."""
    run = Scenario(start(search_attributes=SET))

    assert search_attributes.from_json(row(run)) == (tuple(sorted(SET, key=lambda a: a.name)), None)
    assert describe(run.state).info.search_attributes == SET
    assert run.last(ev.WorkflowExecutionStarted).search_attributes == SET


def test_a_command_changes_sets_and_takes_away() -> None:
    run = Scenario(start(search_attributes=(REGION,)))
    token = run.hand_out()

    first = SearchAttribute("Region", AttributeType.INT, 7)  # another type takes the name's place
    second = SearchAttribute("Paid", AttributeType.BOOL, True)
    then = run.when(done(token, upsert(first, second)))

    assert then.events == [
        *("3 WorkflowTaskStarted", "4 WorkflowTaskCompleted"),
        "5 UpsertWorkflowSearchAttributes",
    ]
    assert run.last(ev.UpsertWorkflowSearchAttributes).workflow_task_completed_event_id == 4
    assert json.loads(row(run)) == {"i": {"Region": 7}, "b": {"Paid": True}}
    run.when(signal(50))
    gone = SearchAttribute("Region", AttributeType.INT, None)
    run.turn(upsert(gone), upsert(SearchAttribute("Paid", AttributeType.BOOL, None)))
    assert row(run) == "{}"


def test_a_run_that_ends_keeps_them() -> None:
    run = Scenario(start())
    run.turn(upsert(REGION), COMPLETE)

    assert json.loads(row(run)) == {"k": {"Region": "eu"}}


def test_more_than_a_run_may_have_fails_the_task_and_changes_nothing() -> None:
    """Each command is within its limits; together with what the run has they are not."""
    run = Scenario(start())
    large = "x" * limits.SEARCH_ATTRIBUTE_BYTES_MAX
    half = [SearchAttribute(f"n{n}", AttributeType.KEYWORD, large) for n in range(10)]
    rest = [SearchAttribute(f"m{n}", AttributeType.KEYWORD, large) for n in range(10)]
    token = run.hand_out()

    run.when(done(token, upsert(*half), upsert(*rest)))

    assert run.last(ev.WorkflowTaskFailed).cause is WorkflowTaskFailedCause.BAD_COMMAND
    assert run.state.folded.search_attributes == ()
    assert row(run) == "{}"


def test_the_last_change_of_a_name_wins() -> None:
    us = SearchAttribute("Region", AttributeType.KEYWORD, "us")

    assert merged((REGION,), [us]) == (us,)
    assert merged((REGION,), [us, REGION]) == (REGION,)
    assert merged((REGION,), [SearchAttribute("Region", AttributeType.KEYWORD, None)]) == ()


def test_sizes_count_bytes() -> None:
    assert search_attributes.size(SearchAttribute("n", AttributeType.KEYWORD, "ä")) == 2
    assert (
        search_attributes.size(SearchAttribute("n", AttributeType.KEYWORD_LIST, ("ab", "c"))) == 3
    )
    assert search_attributes.size(SearchAttribute("n", AttributeType.INT, 1)) == 8
    assert search_attributes.total_size([SearchAttribute("ä", AttributeType.BOOL, True)]) == 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Big order, big money", ["big", "order", "money"]),
        ("Straße_1 ÄÖ", ["strasse_1", "äö"]),
        ("-- ,", []),
    ],
)
def test_the_words_of_a_text(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize("stored", ["", "{}"])
def test_a_row_without_attributes(stored: str) -> None:
    assert search_attributes.from_json(stored) == ((), None)


def test_a_double_stays_one_when_the_database_drops_its_fraction() -> None:
    """jsonb keeps values, not spellings."""
    found, _ = search_attributes.from_json('{"f": {"Rate": 2, "Far": 100000000000000000000000}}')

    assert [(type(a.value), a.value) for a in found] == [(float, 1e23), (float, 2.0)]
