"""The language of lists: what each form means, and that bad input stops here, with its position."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, Room

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.search_attributes import BUILT_IN_NAMES
from perdure_engine.frontend.filters import Query, parse
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.count_workflows import count_workflows
from perdure_engine.frontend.handlers.list_workflows import list_workflows
from perdure_engine.ports.filters import (
    And,
    AttributeIsNull,
    Column,
    Compare,
    CompareAttribute,
    Group,
    IsNull,
    Not,
    Operator,
    Or,
    Order,
)
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

NOW_US = 1_800_000_000_000_000
EQ = Operator.EQ
TYPE = Compare(Column.WORKFLOW_TYPE, EQ, "Order")
REGION = CompareAttribute("Region", EQ, "eu")
DAY_US = 1_767_225_600_000_000  # 2026-01-01


def parsed(text: str) -> Query:
    return parse("query", text, NOW_US)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("WorkflowType = 'Order'", TYPE),
        ('WorkflowType="Order"', TYPE),
        ("`WorkflowType` = 'Order'", TYPE),
        ("(WorkflowType = 'Order')", TYPE),
        ("WorkflowType != 'Order'", Not(TYPE)),
        (
            "WorkflowType STARTS_WITH 'Or'",
            Compare(Column.WORKFLOW_TYPE, Operator.STARTS_WITH, "Or"),
        ),
        (
            "workflowid = 'x'",  # names have one spelling: this one is somebody's own
            CompareAttribute("workflowid", EQ, "x"),
        ),
        (f"RunId = '{uuid_text(RUN_ID)}'", Compare(Column.RUN_ID, EQ, RUN_ID)),
        ("ExecutionStatus = 'Running'", Compare(Column.STATUS, EQ, 1)),
        ("ExecutionStatus = 'ContinuedAsNew'", Compare(Column.STATUS, EQ, 6)),
        ("ExecutionStatus = 'TIMED_OUT'", Compare(Column.STATUS, EQ, 7)),
        ("HistoryLength >= 100", Compare(Column.HISTORY_LENGTH, Operator.GE, 100)),
        ("Stuck = true", Compare(Column.STUCK, EQ, True)),
        ("StartTime > '2026-01-01'", Compare(Column.START_TIME, Operator.GT, DAY_US)),
        (
            "StartTime > '2026-01-01T02:00:00.5+02:00'",
            Compare(Column.START_TIME, Operator.GT, DAY_US + 500_000),
        ),
        ("StartTime > '2h'", Compare(Column.START_TIME, Operator.GT, NOW_US - 7_200_000_000)),
        ("CloseTime IS NULL", IsNull(Column.CLOSE_TIME)),
        ("CloseTime is not null", Not(IsNull(Column.CLOSE_TIME))),
        ("Region = 'eu'", REGION),
        ("Region != 'eu'", And((Not(AttributeIsNull("Region")), Not(REGION)))),
        ("Region IN ('eu')", REGION),
        ("Region IN ('eu', 'us')", Or((REGION, CompareAttribute("Region", EQ, "us")))),
        ("Region NOT IN ('eu')", And((Not(AttributeIsNull("Region")), Not(REGION)))),
        (
            "Amount BETWEEN 1 AND 2.5",
            And(
                (
                    CompareAttribute("Amount", Operator.GE, 1),
                    CompareAttribute("Amount", Operator.LE, 2.5),
                )
            ),
        ),
        ("Amount = -1e3", CompareAttribute("Amount", EQ, -1000.0)),
        ("Paid = FALSE", CompareAttribute("Paid", EQ, False)),
        ("Due < '2026-01-01'", CompareAttribute("Due", Operator.LT, "2026-01-01", DAY_US)),
        ("`odd name-1` = 'it''s'", CompareAttribute("odd name-1", EQ, "it's")),
        (r"`AND` = 'a\'b\\c'", CompareAttribute("AND", EQ, r"a'b\c")),
        ("Größe.x = ''", CompareAttribute("Größe.x", EQ, "")),
        ("NOT Region = 'eu'", Not(REGION)),
        ("NOT NOT Region = 'eu'", Not(Not(REGION))),
        (
            "Region = 'eu' OR Region = 'eu' AND NOT WorkflowType = 'Order'",
            Or((REGION, And((REGION, Not(TYPE))))),
        ),
        (
            "(Region = 'eu' or Region = 'eu') and WorkflowType = 'Order'",
            And((Or((REGION, REGION)), TYPE)),
        ),
    ],
)
def test_what_a_filter_means(text: str, expression: Any) -> None:
    assert parsed(text) == Query(expression)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("  ", Query()),
        ("ORDER BY StartTime", Query(order=Order.START_ASC)),
        ("ORDER BY StartTime ASC", Query(order=Order.START_ASC)),
        ("order by StartTime desc", Query(order=Order.START_DESC)),
        ("Region = 'eu' ORDER BY CloseTime DESC", Query(REGION, Order.CLOSE_DESC)),
        ("ORDER BY CloseTime", Query(order=Order.CLOSE_ASC)),
        ("GROUP BY ExecutionStatus", Query(group=Group.STATUS)),
        ("Region = 'eu' GROUP BY WorkflowType", Query(REGION, group=Group.WORKFLOW_TYPE)),
    ],
)
def test_order_and_group(text: str, query: Query) -> None:
    assert parsed(text) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Region", "its end"),
        ("Region =", "its end"),
        ("Region = eu", "position 10"),
        ("Region == 'eu'", "position 9"),
        ("Region = 'eu", "position 10"),
        ("Region = 'eu' Region = 'us'", "position 15"),
        ("' OR 1=1 --", "position 1"),
        ("Region = 'eu'; drop table visibility", "position 14"),
        ("1 = 1", "position 1"),
        ("Region = lower('EU')", "position 10"),
        ("Region LIKE '%a%'", "position 8"),
        ("Region = 'eu' -- and more", "position 15"),
        ("Region IN ()", "position 12"),
        ("(Region = 'eu'", "its end"),
        ("Region = 'eu')", "position 14"),
        ("NOT", "its end"),
        (r"Region = 'a\n'", r"position 10: knows the escapes"),
        ("RunId = 'x'", "position 9: a run id"),
        ("RunId > 'x'", "position 1: RunId is only compared by"),
        ("ExecutionStatus = 'Sleeping'", "position 19: is not a status"),
        ("ExecutionStatus > 'Running'", "position 1: ExecutionStatus is only"),
        ("ExecutionStatus = 1", "position 19: ExecutionStatus is compared with a text"),
        ("StartTime > 'yesterday'", "position 13: is no time"),
        ("StartTime > '2026-13-01'", "position 13: is no time"),
        ("StartTime > '999999999d'", "position 13: lies outside the years"),
        ("StartTime > '99999999d'", "position 13: lies outside the years"),
        ("CloseTime < '0001-01-01T00:00:00+14:00'", "position 13: lies outside the years"),
        ("StartTime > 5", "position 13: StartTime is compared with a text"),
        ("StartTime STARTS_WITH '2026'", "position 1: StartTime is no text"),
        ("WorkflowId = 5", "position 14: WorkflowId is compared with a text"),
        ("HistoryLength > '5'", "position 17: HistoryLength is a whole number"),
        ("HistoryLength > 1.5", "position 17: HistoryLength is a whole number"),
        ("HistoryLength = true", "position 17: HistoryLength is a whole number"),
        ("Stuck = 'yes'", "position 9: must be true or false"),
        ("Amount > 9223372036854775808", "position 10: is too large a number"),
        ("Amount > 1e400", "position 10: is too large a number"),
        ("Amount STARTS_WITH 5", "position 20: STARTS_WITH needs a text"),
        ("Paid > true", "position 8: true and false"),
        ("ORDER BY WorkflowId", "position 10: lists are ordered by"),
        ("GROUP BY Region", "position 10: counts are grouped by"),
        ("ORDER BY StartTime, RunId", "position 19"),
        ("a = '\0'", "NUL"),
        ("a = '" + "x" * limits.QUERY_BYTES_MAX + "'", "longer than 2048 bytes"),
        ("(" * 11 + "a = 1" + ")" * 11, "over 10 parentheses"),
        (" OR ".join(["a = 1"] * 51), "over 50 values"),
        ("NOT " * 500 + "a = 1", "over 50 values"),
        ("a IN (" + ", ".join(["1"] * 51) + ")", "over 50 values"),
    ],
)
def test_b22_what_is_no_filter_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        parsed(text)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "query")
    assert message in caught.value.message


def test_the_largest_filters_are_read() -> None:
    assert parsed("(" * 10 + "a = 1" + ")" * 10).expression == CompareAttribute("a", EQ, 1)
    assert parsed("NOT " * 49 + "a = 1").expression is not None
    terms = parsed(" OR ".join(["a = 1"] * 50)).expression
    assert isinstance(terms, Or)
    assert len(terms.terms) == 50


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Rejected):
        parsed(text)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(Rejected):
        parsed("a = '\ud800'")


def test_the_built_in_names_are_those_that_attributes_may_not_have() -> None:
    assert {column.value for column in Column} == BUILT_IN_NAMES


# ---- in lists and counts


def row(number: int) -> VisibilityRow:
    run_id = number.to_bytes(16, "big")
    return VisibilityRow(
        *(1, run_id, NAMESPACE_ID, 1, f"w{number}", "T", "q", 2, number, number + 5, 3, 300, b""),
        "{}",
    )


ALL = VisibilityFilter(NAMESPACE_ID)


async def test_query_and_filter_both_hold() -> None:
    room = Room()
    where = VisibilityFilter(NAMESPACE_ID, statuses=(1,))

    await list_workflows(room.frontend, where, 0, b"", "Region = 'eu' ORDER BY CloseTime")
    await count_workflows(room.frontend, where, "Region = 'eu'")

    asked = VisibilityFilter(NAMESPACE_ID, statuses=(1,), expression=REGION)
    assert [where for where, _, _ in room.store.lists] == [asked, asked]
    assert room.store.orders == [Order.CLOSE_ASC]


async def test_a_page_token_keeps_what_ago_means_and_the_close_of_the_last_row() -> None:
    room = Room()
    room.store.runs = [row(1), row(2)]
    query = "StartTime > '1s' ORDER BY CloseTime DESC"
    first = await list_workflows(room.frontend, ALL, 1, b"", query)
    later = at(room, 9_000_000)

    await list_workflows(later, ALL, 1, first.next_page_token, query)

    (asked, _, _), (again, before, _) = room.store.lists
    assert asked == again
    assert before == (2, row(2).run_id, 7)


def at(room: Room, now_us: int) -> Frontend:
    return msgspec.structs.replace(room.frontend, db_now_us=lambda: now_us)


async def test_b20_a_page_token_belongs_to_its_query() -> None:
    room = Room()
    room.store.runs = [row(1), row(2)]
    token = (await list_workflows(room.frontend, ALL, 1, b"", "a = 1")).next_page_token

    with pytest.raises(Rejected) as caught:
        await list_workflows(room.frontend, ALL, 1, token, "a = 2")

    assert caught.value.field == "page_token"


async def test_counts_by_group() -> None:
    room = Room()

    by_status = await count_workflows(room.frontend, ALL, "GROUP BY ExecutionStatus")
    by_type = await count_workflows(room.frontend, ALL, "GROUP BY WorkflowType")

    assert (by_status.count, by_status.groups) == (4, [(2, 3), (7, 1)])
    assert (by_type.count, by_type.groups) == (4, [("Order", 4)])


async def test_what_belongs_to_the_other_call_is_refused() -> None:
    room = Room()

    with pytest.raises(Rejected, match="a list has no GROUP BY"):
        await list_workflows(room.frontend, ALL, 0, b"", "GROUP BY ExecutionStatus")
    with pytest.raises(Rejected, match="a count has no ORDER BY"):
        await count_workflows(room.frontend, ALL, "ORDER BY StartTime")

    assert not room.touched
